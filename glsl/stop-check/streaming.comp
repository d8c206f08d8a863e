// Stop criterion at the speed of memory: every load is one of 16 bytes with several in flight; only a sub-group that finds a
// pair too far apart says so atomically, and the last work-group to arrive writes the flag. Nothing has to be set first.
// With TEXEL, for software devices, quads are read through texel views.
// Mapping: a work-group goes over `count` quads an invocation.
// Source: ours.
#version 460
#pragma dtypes f32
#pragma kernel streaming
#pragma kernel streaming-texel TEXEL
#extension GL_KHR_shader_subgroup_vote : require
#include "quads.glsl"
#include "subgroups.glsl"
#include "last-group.glsl"

layout(constant_id = 2) const uint UNROLL = 1;  // quads that an invocation has in flight

layout(push_constant, scalar) uniform Arguments {
    Input s;
    Words stop;
    // In the lower half how many work-groups are done, less one; in the upper how many of them found a pair too far apart.
    // One word tells all that the last of them has to know, so that nothing has to be put in order.
    Arrivals arrivals;
    float eps;
    uint n;
    uint count;  // quads an invocation, a multiple of UNROLL
};

#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer s4;
#define S_QUAD(i) texelFetch(s4, int(i))
#endif

shared bool near_in[SUBGROUPS];

// Whether the four elements from 4·q on are near to their neighbours, given the one behind them.
bool near(vec4 own, float next) { return all(lessThan(abs(own - vec4(own.yzw, next)), vec4(eps))); }

// The element behind quad q, where the one behind the last is the first.
float behind(uint q) { return s.at[4 * q + 4 < n ? 4 * q + 4 : 0]; }

void main() {
    uint group = folded_group(), quads = n / 4;
    bool all_near = true;
#if defined(TEXEL)
    // An invocation's quads follow one another: the element behind one is the first of the next.
    uint first = (group * GROUP + place()) * count;
    if (first < quads) {
        uint end = min(first + count, quads);
        vec4 own = S_QUAD(first);
        for (uint q = first + 1; q < end; ++q) {
            vec4 next = S_QUAD(q);
            all_near = all_near && near(own, next.x);
            own = next;
        }
        all_near = all_near && near(own, behind(end - 1));
    }
#else
    uint first = group * count * GROUP + place();
    for (uint j = 0; j < count; j += UNROLL) {
        vec4 own[UNROLL];
        float next[UNROLL];
        // Indices beyond the end are clamped to the last quad, which changes no result.
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint q = min(first + (j + u) * GROUP, max(quads, 1) - 1);
            own[u] = quads > 0 ? Quads(s).at[q] : vec4(0);
            next[u] = quads > 0 ? behind(q) : 0;
        }
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) all_near = all_near && near(own[u], next[u]);
    }
#endif
    uint i = 4 * quads + place();
    if (group == 0 && i < n) all_near = all_near && abs(s.at[i] - s.at[i + 1 < n ? i + 1 : 0]) < eps;

    all_near = subgroupAll(all_near);
    if (subgroupElect()) near_in[gl_SubgroupID] = all_near;
    barrier();
    if (gl_LocalInvocationIndex != 0) return;
    for (uint i = 0; i < SUBGROUPS; ++i) all_near = all_near && near_in[i];
    uint told = all_near ? 1 : 0x10001u;
    uint sum = atomicAdd(arrivals.at[0], told) + told;
    if ((sum & 0xffffu) != work_groups() - 1) return;
    atomicExchange(arrivals.at[0], 0xffffffffu);
    stop.at[0] = sum >> 16 == 0 ? 1 : 0;
}
