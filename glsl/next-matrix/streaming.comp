// Next matrix of the similarity transform at the speed of memory: every load and store of M is one of 16 bytes, and the row
// sums of the columns serve ROWS rows.
// With TEXEL, for software devices, quads are read through texel views.
// Mapping: x is the quad of a row, y (folded into z) counts sets of ROWS rows four apart.
// Source: ours.
#version 460
#pragma dtypes f32
#pragma kernel streaming
#pragma kernel streaming-texel TEXEL
#include "quads.glsl"

layout(constant_id = 2) const uint ROWS = 1;  // of an invocation

layout(push_constant, scalar) uniform Arguments {
    InPlace M;
    Input s;
    uint n;
};

#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer M4;
layout(binding = 1) uniform samplerBuffer s4;
#define M_QUAD(i) texelFetch(M4, int(i))
#define S_QUAD(i) texelFetch(s4, int(i))
#else
#define M_QUAD(i) QuadsInPlace(M).at[i]
#define S_QUAD(i) Quads(s).at[i]
#endif

void main() {
    uint number = folded_group_y();
    uint first = number / 4 * (4 * ROWS) + number % 4;
    if (first >= n) return;
    // Rows four apart, for they begin at the same place in a quad: `head` columns before their first whole one.
    uint head = min(-(first * n) & 3, n), quads = (n - head) / 4;
    uint q = gl_GlobalInvocationID.x;
    float reciprocal[ROWS];
    if (q < quads) {
        vec4 values[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = first + 4 * r < n ? first + 4 * r : first;
            values[r] = M_QUAD((row * n + head) / 4 + q);
            reciprocal[r] = 1.0 / s.at[row];
        }
        uint column = head + 4 * q;
        vec4 sums;
        if (head == 0) {
            sums = S_QUAD(q);
        } else {
            sums = vec4(s.at[column], s.at[column + 1], s.at[column + 2], s.at[column + 3]);
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = first + 4 * r;
            if (row < n) QuadsInPlace(M).at[(row * n + head) / 4 + q] = values[r] * (reciprocal[r] * sums);
        }
    } else if (q < quads + n - 4 * quads) {
        // The columns before the first whole quad and behind the last, one an invocation.
        uint edge = q - quads, column = edge < head ? edge : 4 * quads + edge;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = first + 4 * r;
            if (row < n) M.at[row * n + column] *= (1.0 / s.at[row]) * s.at[column];
        }
    }
}
