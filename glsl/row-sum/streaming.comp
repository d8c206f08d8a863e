// Row sums at the speed of memory: every load is one of 16 bytes, and an invocation has
// several in flight. A row is added up by one team, so there is nothing to add atomically and nothing to zero first.
// With TEXEL, for software devices, quads are read through texel views.
// Mapping: see rows.glsl; teams are numbered along x, folded into y.
// Source: ours.
#version 460
#pragma dtypes f32
#pragma kernel streaming
#pragma kernel streaming-texel TEXEL
#include "quads.glsl"
#include "subgroups.glsl"

layout(push_constant, scalar) uniform Arguments {
    Input A;
    InPlace s;
    uint n;
};

#define A_ONE(i) A.at[i]
#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer A4;
#define A_QUAD(i) texelFetch(A4, int(i))
#else
#define A_QUAD(i) Quads(A).at[i]
#endif
#include "rows.glsl"

void main() {
    sum_rows(n);
    if (own_row < n) s.at[own_row] = own_sum;
}
