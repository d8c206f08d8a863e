// Brings the columns of an inner block from `to` on up to date with the DEPTH before them, which pivot-panel has factorised: the
// pivots' rows of U by substitution, in every work-group anew, then all other rows. Rows that have been pivots stay as they
// are, for all work-groups read them.
// Mapping: x is a block of 64 positions; 128 invocations, a quad of positions and a column each.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 8;

layout(push_constant, scalar) uniform Arguments {
    Reals P;
    Reals corner;    // rows of U of the inner block's pivots, 32×32
    Indices chosen;  // their positions
    uint stride;
    uint first;     // row and column of the inner block
    uint plane;     // its first column in P
    uint to;        // the first of the columns to bring up to date
};

const uint BLOCK = 64;
const uint LINE = INNER + 1;

shared float lower[INNER * LINE];
shared float upper[INNER * INNER];
shared uint taken[BLOCK / 32];

void main() {
    uint lane = gl_LocalInvocationID.x, from = to - DEPTH, rest = INNER - to;
    uint begin = gl_WorkGroupID.x * BLOCK;  // from `first` on, as are the pivots
    if (lane < BLOCK / 32) taken[lane] = 0;
    for (uint at = lane; at < DEPTH * INNER; at += gl_WorkGroupSize.x) {
        uint i = at / INNER, d = from + at % INNER, place = chosen.at[from + i];
        if (d >= INNER) continue;
        float value = P.at[(plane + d) * stride + first + place];
        if (d < to) lower[i * LINE + d - from] = value;
        else upper[i * INNER + d] = value;
    }
    barrier();
    for (uint i = lane; i < to; i += gl_WorkGroupSize.x) {
        uint place = chosen.at[i] - begin;
        if (place < BLOCK) atomicOr(taken[place / 32], 1u << place % 32);
    }
    for (uint d = to + lane; d < INNER; d += gl_WorkGroupSize.x) {
        float u[DEPTH];
        [[unroll]] for (uint i = 0; i < DEPTH; ++i) {
            u[i] = upper[i * INNER + d];
            [[unroll]] for (uint k = 0; k < DEPTH; ++k) if (k < i) u[i] -= lower[i * LINE + k] * u[k];
            upper[i * INNER + d] = u[i];
            if (gl_WorkGroupID.x == 0) corner.at[(from + i) * INNER + d] = u[i];
        }
    }
    barrier();
    for (uint at = lane; at < BLOCK / 4 * rest; at += gl_WorkGroupSize.x) {
        uint q = at % (BLOCK / 4), d = to + at / (BLOCK / 4), place = begin + q * 4;
        if (first + place >= stride) continue;
        uint own = ((plane + d) * stride + first + place) / 4;
        vec4 sums = Quads(P).at[own], l[DEPTH];
        [[unroll]] for (uint k = 0; k < DEPTH; ++k) {
            l[k] = Quads(P).at[((plane + from + k) * stride + first + place) / 4];
        }
        [[unroll]] for (uint k = 0; k < DEPTH; ++k) sums -= l[k] * upper[k * INNER + d];
        uint pivots = taken[q / 8] >> q % 8 * 4 & 15u;
        if (pivots == 0) {
            Quads(P).at[own] = sums;
        } else {
            [[unroll]] for (uint j = 0; j < 4; ++j) if ((pivots >> j & 1u) == 0) P.at[own * 4 + j] = sums[j];
        }
    }
}
