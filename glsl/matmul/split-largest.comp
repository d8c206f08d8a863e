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
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Largest { uint bits; };
layout(push_constant, scalar) uniform Arguments {
    Matrix X;
    Largest LARGEST;  // zero before
    uint COUNT;
};

void main() {
    uint first = (gl_WorkGroupID.x + folded_group_y() * gl_NumWorkGroups.x) * SPAN;
    uint largest = 0;
    for (uint i = gl_LocalInvocationID.x; i < SPAN; i += gl_WorkGroupSize.x) {
        if (first + i < COUNT) largest = max(largest, X.at[first + i] & 0x7fffffffu);
    }
    largest = subgroupMax(largest);
    if (subgroupElect()) atomicMax(LARGEST.bits, largest);
}
