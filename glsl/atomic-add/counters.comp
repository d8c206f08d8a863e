// Atomic additions to global memory, spread over as many counters as asked for, a power of two: one for the worst case.
// Mapping: an invocation adds ADDS times to one counter, neighbours to neighbouring ones.
// Source: none; the usual method.
#version 460
#pragma dtypes i32
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ADDS = 64;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Counters { uint at[]; };
layout(push_constant, scalar) uniform Arguments {
    Counters C;
    uint MASK;  // counters, less one
};

void main() {
    uint i = gl_GlobalInvocationID.x & MASK;
    for (uint n = 0; n < ADDS; ++n) atomicAdd(C.at[i], n & 1u);
}
