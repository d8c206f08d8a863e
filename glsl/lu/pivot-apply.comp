// Brings the columns of an inner block from `to` on up to date with the DEPTH before them, which pivot-panel has factorised: the
// pivots' rows of U by substitution, in every work-group anew, then all other rows. Rows that have been pivots stay as they
// are, for all work-groups read them.
// Mapping: x is a block of 64 positions; 128 invocations, a quad of positions and every eighth column each.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 1) const uint DEPTH = 8;  // a multiple of 8

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
const uint QUADS = BLOCK / 4;
const uint ACROSS = gl_WorkGroupSize.x / QUADS;  // columns that are updated at once
const uint MOST = (INNER - DEPTH) / ACROSS;      // columns of an invocation
const uint LINE = INNER + 1;

shared float lower[INNER * LINE];
shared float upper[INNER * INNER];
shared uint taken[BLOCK / 32];

void main() {
    uint lane = gl_LocalInvocationID.x, from = to - DEPTH;
    uint begin = gl_WorkGroupID.x * BLOCK;  // from `first` on, as are the pivots
    // All loads are on their way before the first is waited for.
    uint quad = lane % QUADS, column = to + lane / QUADS;
    uint place_of_quad = first + begin + quad * 4, read = min(place_of_quad, stride - 4);
    vec4 l[DEPTH], sums[MOST];
    [[unroll]] for (uint k = 0; k < DEPTH; ++k) l[k] = Quads(P).at[((plane + from + k) * stride + read) / 4];
    [[unroll]] for (uint j = 0; j < MOST; ++j) {
        sums[j] = Quads(P).at[((plane + min(column + j * ACROSS, INNER - 1)) * stride + read) / 4];
    }
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
    if (place_of_quad >= stride) return;
    uint pivots = taken[quad / 8] >> quad % 8 * 4 & 15u;
    [[unroll]] for (uint j = 0; j < MOST; ++j) {
        uint d = column + j * ACROSS;
        if (d >= INNER) break;
        [[unroll]] for (uint k = 0; k < DEPTH; ++k) sums[j] -= l[k] * upper[k * INNER + d];
        uint own = ((plane + d) * stride + place_of_quad) / 4;
        if (pivots == 0) {
            Quads(P).at[own] = sums[j];
        } else {
            [[unroll]] for (uint i = 0; i < 4; ++i) if ((pivots >> i & 1u) == 0) P.at[own * 4 + i] = sums[j][i];
        }
    }
}
