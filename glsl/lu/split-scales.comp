// The scale of each k of an outer block: 2^−e, where the largest magnitude of its column of L below the block is in [2^e, 2^(e+1)).
// With columns of L so scaled, and rows of U by the inverses, neither rows nor columns of very different magnitude lose
// digits in halves.
// Mapping: x is k.
#version 460
#pragma dtypes f32
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lu-blocked.glsl"
#include "split.glsl"

layout(local_size_x_id = 0) in;  // 256

layout(push_constant, scalar) uniform Arguments {
    Reals P;
    Reals SCALES;
    uint stride;
    uint top;  // the first row below the block
};

shared uint largest;

void main() {
    uint lane = gl_LocalInvocationID.x, k = gl_WorkGroupID.x;
    if (lane == 0) largest = 0;
    barrier();
    vec4 own = vec4(0);
    for (uint row = top + 4 * lane; row < stride; row += 4 * gl_WorkGroupSize.x) {
        own = max(own, abs(Quads(P).at[(k * stride + row) / 4]));
    }
    uint bits = subgroupMax(floatBitsToUint(max(max(own.x, own.y), max(own.z, own.w))));
    if (subgroupElect()) atomicMax(largest, bits);
    barrier();
    if (lane == 0) SCALES.at[k] = ldexp(1.0, -exponent_of(largest));
}
