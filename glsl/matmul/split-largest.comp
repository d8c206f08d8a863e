// The largest magnitude of a matrix, as the bits of a float: they are ordered as the magnitudes are.
// Mapping: a work-group looks at SPAN elements.
#version 460
#pragma dtypes f32
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "fold.glsl"
#include "split.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SPAN = 16384;

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Matrix { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Quads { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Largest { uint bits; };
layout(push_constant, scalar) uniform Arguments {
    Matrix X;
    Largest LARGEST;  // zero before
    uint COUNT;
};

void main() {
    uint first = (gl_WorkGroupID.x + folded_group_y() * gl_NumWorkGroups.x) * SPAN;
    uint largest = 0;
    // Unrolled, so that many loads are on their way at once.
    [[unroll]] for (uint i = 0; i < SPAN; i += 4 * gl_WorkGroupSize.x) {
        uint at = first + i + 4 * gl_LocalInvocationID.x;
        uvec4 quad = uvec4(0);
        if (at + 3 < COUNT) {
            quad = Quads(X).at[at / 4];
        } else {
            [[unroll]] for (uint j = 0; j < 4; ++j) if (at + j < COUNT) quad[j] = X.at[at + j];
        }
        quad &= 0x7fffffffu;
        largest = max(largest, max(max(quad.x, quad.y), max(quad.z, quad.w)));
    }
    largest = subgroupMax(largest);
    if (subgroupElect()) atomicMax(LARGEST.bits, largest);
}
