// Eigenvector at the speed of memory: every load and store is one of 16 bytes.
// With TEXEL, for software devices, quads are read through texel views.
// Mapping: an invocation has UNROLL quads, a work-group's width apart; work-groups folded into y.
// Source: ours.
#version 460
#pragma dtypes f32
#pragma kernel streaming
#pragma kernel streaming-texel TEXEL
#include "quads.glsl"

layout(constant_id = 2) const uint UNROLL = 1;  // quads of an invocation

layout(push_constant, scalar) uniform Arguments {
    Input s;
    Input maximum;
    InPlace e;
    uint n;
};

#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer s4;
layout(binding = 1) uniform samplerBuffer e4;
#define S_QUAD(i) texelFetch(s4, int(i))
#define E_QUAD(i) texelFetch(e4, int(i))
#else
#define S_QUAD(i) Quads(s).at[i]
#define E_QUAD(i) QuadsInPlace(e).at[i]
#endif

void main() {
    uint quads = n / 4, first = folded_group() * UNROLL * GROUP + gl_LocalInvocationID.x;
    float largest = maximum.at[0];
    vec4 sums[UNROLL], own[UNROLL];
    [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
        uint q = first + u * GROUP;
        if (q < quads) {
            sums[u] = S_QUAD(q);
            own[u] = E_QUAD(q);
        }
    }
    [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
        uint q = first + u * GROUP;
        if (q < quads) QuadsInPlace(e).at[q] = own[u] * (sums[u] / largest);
    }
    uint i = 4 * quads + first;
    if (first < 4 && i < n) e.at[i] *= s.at[i] / largest;
}
