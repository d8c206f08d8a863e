// Factorises columns `from` to `to` of an inner block of 32 with partial pivoting: the largest magnitude of a column is its
// pivot. One work-group, since every column waits for the pivot of the one before.
//
// The block is in P, column by column. COLUMNS of it at a time are in registers, ROWS rows an invocation: as many as a
// group's registers hold, and no more than eight, for a step works on all of them. Before they are factorised they are brought up to date
// with the columns before them.
//
// No row is moved meanwhile, nor later in W: at the end 32 pivots change places with the rows that stood in theirs, in the columns of
// this outer block, which are in P, and in `rows`, through which all others are found.
// Mapping: one work-group; an invocation has quads of rows, LANES quads apart.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint COLUMNS = 8;
layout(constant_id = 3) const uint SUBGROUP = 32;
layout(constant_id = 4) const uint AHEAD = 0;  // whether columns are on their way while those before them are factorised
layout(constant_id = 5) const uint SELECT = 0;
const uint MICRO = COLUMNS;

layout(push_constant, scalar) uniform Arguments {
    Reals P;
    Reals corner;    // rows of U of the inner block's pivots, 32×32
    Indices chosen;  // their positions
    Indices rows;
    Status status;
    uint n, stride;
    uint first;     // row and column of the inner block
    uint plane;     // its first column in P
    uint from, to;  // the columns of it to factorise; those before have been, and these are up to date with them
};

float x[ROWS * COLUMNS];
#define X(r, d) x[(r) * COLUMNS + (d)]
#include "lu-pivots.glsl"

const uint ROOM = ROWS >= 16 ? 2 : ROWS >= 8 ? 4 : 8;
const uint AT_ONCE = ROOM < MICRO ? ROOM : MICRO;  // columns that are subtracted at once

shared uint taken[2 * LANES];             // of the rows of an invocation, those that have been pivots
#include "lu-exchange.glsl"

// Where the quad q of an invocation's rows is in a column of P; beyond the end, the last.
uint quad(uint column, uint q, uint lane) {
    return (column * stride + min(first + (q * LANES + lane) * 4, stride - 4)) / 4;
}

void main() {
    // Numbered by sub-group, so that a position tells the sub-group that has it.
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    taken[2 * lane] = 0;
    taken[2 * lane + 1] = 0;
    barrier();
    for (uint i = lane; i < from; i += LANES) {
        pivots[i] = chosen.at[i];
        uint row = row_of_owner(pivots[i]);
        atomicOr(taken[2 * owner(pivots[i]) + row / 32], 1u << row % 32);
    }
    barrier();
    done = uvec2(taken[2 * lane], taken[2 * lane + 1]);
    [[unroll]] for (uint q = 0; q < QUADS; ++q) {
        if (first + (q * LANES + lane) * 4 >= stride) done |= uvec2(q < 8 ? 15u << 4 * q % 32 : 0u, q < 8 ? 0u : 15u << 4 * q % 32);
    }
    // Where registers are left, the columns to come are on their way while these are factorised.
    vec4 next[COLUMNS * QUADS];
#define FETCH(s)                                                                                            \
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {                                                         \
        [[unroll]] for (uint q = 0; q < QUADS; ++q) next[c * QUADS + q] = Quads(P).at[quad(plane + (s) + c, q, lane)]; \
    }
    if (AHEAD != 0) {
        FETCH(from)
    }
    for (uint s = from; s < to; s += COLUMNS) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                vec4 values = AHEAD != 0 ? next[c * QUADS + q] : Quads(P).at[quad(plane + s + c, q, lane)];
                [[unroll]] for (uint j = 0; j < 4; ++j) X(4 * q + j, c) = values[j];
            }
        }
        if (AHEAD != 0) {
            FETCH(min(s + COLUMNS, INNER - COLUMNS))
        }
        // Several columns are on their way at once.
        for (uint some = from; some < s; some += AT_ONCE) {
            vec4 l[AT_ONCE * QUADS];
            [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
                [[unroll]] for (uint q = 0; q < QUADS; ++q) l[k * QUADS + q] = Quads(P).at[quad(plane + some + k, q, lane)];
            }
            [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                    float u = UPPER(some + k, s + c);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, c) -= l[k * QUADS + r / 4][r % 4] * u;
                }
            }
        }
        factorise(lane, 0, s);
        // The last pivot, and L of the sets before this.
        barrier_of_memory();
        uint next_set = s + COLUMNS, rest = to - next_set;
        // Their rows: raw in the columns to come, L in those before, which is in registers for these.
        uint wide = rest == 0 ? 0 : INNER - from;
        for (uint at = lane; at < COLUMNS * wide; at += LANES) {
            uint i = at / wide, d = from + at % wide;
            if (d >= s && d < next_set) continue;
            float value = P.at[(plane + d) * stride + first + pivots[s + i]];
            if (d < s) lower[i * LINE + d] = value;
            else UPPER(s + i, d) = value;
        }
        for (uint i = 0; SELECT == 0 && rest > 0 && i < COLUMNS; ++i) {
            if (owner(pivots[s + i]) != lane) continue;
            uint own = row_of_owner(pivots[s + i]);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                if (own != r) continue;
                [[unroll]] for (uint k = 0; k < COLUMNS; ++k) lower[i * LINE + s + k] = X(r, k);
            }
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                vec4 values = vec4(X(4 * q, c), X(4 * q + 1, c), X(4 * q + 2, c), X(4 * q + 3, c));
                if (first + (q * LANES + lane) * 4 < stride) Quads(P).at[quad(plane + s + c, q, lane)] = values;
            }
        }
        uint own = s + lane;
        if (lane < COLUMNS && first + own < n) check_pivot(status, UPPER(own, own), first + own);
        if (rest == 0) break;
        barrier();
        if (s > from) {
            for (uint at = lane; at < COLUMNS * rest; at += LANES) {
                uint i = at / rest, d = next_set + at % rest;
                float sum = UPPER(s + i, d);
                for (uint some = from; some < s; some += COLUMNS) {
                    [[unroll]] for (uint k = 0; k < COLUMNS; ++k) sum -= lower[i * LINE + some + k] * UPPER(some + k, d);
                }
                UPPER(s + i, d) = sum;
            }
            barrier();
        }
        for (uint d = next_set + lane; d < to; d += LANES) {
            float u[COLUMNS];
            [[unroll]] for (uint i = 0; i < COLUMNS; ++i) {
                u[i] = UPPER(s + i, d);
                [[unroll]] for (uint k = 0; k < COLUMNS; ++k) if (k < i) u[i] -= lower[i * LINE + s + k] * u[k];
                UPPER(s + i, d) = u[i];
            }
        }
        barrier();
    }

    if (to < INNER) {
        for (uint i = from + lane; i < to; i += LANES) chosen.at[i] = pivots[i];
        for (uint at = lane; at < (to - from) * INNER; at += LANES) {
            uint i = from + at / INNER, d = at % INNER;
            if (d >= i && d < to) corner.at[i * INNER + d] = UPPER(i, d);
        }
        return;
    }
    barrier_of_memory();
    // The rows of U, over what the steps have left there. Each begins with its pivot.
    for (uint at = lane; at < INNER * INNER; at += LANES) {
        uint i = at / INNER, d = at % INNER;
        float value = i < from ? corner.at[at] : UPPER(i, d);
        if (d >= i) P.at[(plane + d) * stride + first + pivots[i]] = value;
    }

    exchange(lane);
}
