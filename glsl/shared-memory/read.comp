// Shared-memory read bandwidth: 16-byte loads, neighbouring lanes next to one another, so without bank conflicts.
// Mapping: one work-group fills and reads an array of one vector an invocation; each invocation goes round it.
// Source: none; the usual method.
#version 460
#pragma dtypes i32
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LOADS = 4096;
const uint UNROLL = 16;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Given { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Sums { uint at[]; };
layout(push_constant, scalar) uniform Arguments {
    Given X;
    Sums Y;
};

shared uvec4 tile[gl_WorkGroupSize.x];

void main() {
    uint id = gl_LocalInvocationID.x;
    tile[id] = uvec4(X.at[4 * id], X.at[4 * id + 1], X.at[4 * id + 2], X.at[4 * id + 3]);
    barrier();
    uvec4 sum = uvec4(0);
    uint place = id;
    for (uint i = 0; i < LOADS / UNROLL; ++i) {
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) sum += tile[(place + u) % gl_WorkGroupSize.x];
        place += UNROLL;
    }
    Y.at[gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
