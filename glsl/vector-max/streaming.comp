// Maximum of a vector at the speed of memory: every load is one of 16 bytes with several in flight; a work-group takes
// one atomic maximum, and the last of them to arrive writes the result. Nothing has to be zeroed first.
// With TEXEL, for software devices, quads are read through texel views.
// Mapping: a work-group goes over `count` pieces that follow one another, an invocation to a quad.
// Source: ours.
#version 460
#pragma dtypes f32
#pragma kernel streaming
#pragma kernel streaming-texel TEXEL
#include "quads.glsl"
#include "subgroups.glsl"
#include "last-group.glsl"

layout(constant_id = 2) const uint UNROLL = 1;  // quads that an invocation has in flight

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Least { uint at[]; };

layout(push_constant, scalar) uniform Arguments {
    Input x;
    Words max_bits;
    // The bits of the largest element so far, inverted: all are set before any was seen, and the bits of floats that are
    // not negative order as integers do.
    Least least;
    Arrivals arrivals;
    uint n;
    uint count;  // quads an invocation, a multiple of UNROLL
};

#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer x4;
#define X_QUAD(i) texelFetch(x4, int(i))
#else
#define X_QUAD(i) Quads(x).at[i]
#endif

shared float of_subgroup[SUBGROUPS];

void main() {
    uint group = folded_group(), quads = n / 4;
    vec4 found = vec4(0);
    uint first = group * count * GROUP + place();
    for (uint j = 0; j < count; j += UNROLL) {
        vec4 values[UNROLL];
        // Indices beyond the end are clamped to the last quad, which changes no maximum.
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) values[u] = X_QUAD(min(first + (j + u) * GROUP, max(quads, 1) - 1));
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) found = max(found, values[u]);
    }
    if (quads == 0) found = vec4(0);
    if (group == 0 && 4 * quads + place() < n) found.x = max(found.x, x.at[4 * quads + place()]);

    float most = subgroup_max(max(max(found.x, found.y), max(found.z, found.w)));
    if (SUBGROUPS > 1) {
        if (subgroupElect()) of_subgroup[gl_SubgroupID] = most;
        barrier();
        if (gl_SubgroupID != 0) return;
        for (uint i = gl_SubgroupInvocationID; i < SUBGROUPS; i += SUBGROUP) most = max(most, of_subgroup[i]);
        most = subgroup_max(most);
    }
    // One invocation speaks for its group, and nobody waits for the answer but itself.
    if (!subgroupElect()) return;
    atomicMin(least.at[0], ~floatBitsToUint(most));
    memoryBarrierBuffer();
    if (!arrives_last(arrivals, 0, work_groups())) return;
    memoryBarrierBuffer();
    max_bits.at[0] = ~atomicExchange(least.at[0], 0xffffffffu);
}
