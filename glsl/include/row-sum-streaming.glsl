// The body of row-sum/streaming and row-sum/streaming-texel.
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
