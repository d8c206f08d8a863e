// The body of stop-check/streaming and stop-check/streaming-texel.
#extension GL_KHR_shader_subgroup_vote : require
#include "quads.glsl"
#include "subgroups.glsl"
#include "last-group.glsl"

layout(constant_id = 2) const uint UNROLL = 1;  // quads that an invocation has in flight

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Verdict { uint at[]; };

layout(push_constant, scalar) uniform Arguments {
    Input s;
    Words stop;
    Verdict verdict;  // all bits set unless a work-group found a pair too far apart
    Arrivals arrivals;
    float eps;
    uint n;
    uint count;  // quads an invocation, a multiple of UNROLL
};

#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer s4;
#define S_QUAD(i) texelFetch(s4, int(i))
#endif

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
        // What lies beyond the end is the last quad again.
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

    if (!subgroupAll(all_near) && subgroupElect()) atomicAnd(verdict.at[0], 0);
    if (!last_to_arrive(arrivals)) return;
    if (gl_LocalInvocationIndex == 0) stop.at[0] = atomicOr(verdict.at[0], 0xffffffffu) != 0 ? 1 : 0;
}
