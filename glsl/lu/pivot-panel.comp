// Factorises columns `from` to `to` of an inner block of 32 with partial pivoting: the largest magnitude of a column is its
// pivot. One work-group, since every column waits for the pivot of the one before.
//
// The block is in P, column by column. A set of COLUMNS of it is in registers, ROWS rows an invocation, and first brought up to date
// with the columns before. A step is a maximum over the rows of an invocation, one over its sub-group, a barrier, and one over the
// sub-groups; then the one invocation that has it leaves its row in shared memory, and after a second barrier all take their
// multiple of it. Whatever a step contains is paid for, whoever executes it: so L is stored by the step that makes it, and what
// else follows from a pivot's row waits for the end of the set.
//
// No row is moved meanwhile, nor later in W: at the end 32 pivots change places with the rows that stood in theirs, in the columns of
// this outer block, which are in P, and in `rows`, through which all others are found.
// Mapping: one work-group; an invocation has quads of rows, LANES quads apart.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;     // a multiple of 4, 64 at most
layout(constant_id = 2) const uint COLUMNS = 8;
layout(constant_id = 3) const uint SUBGROUP = 32;
layout(constant_id = 4) const uint AT_ONCE = 4;  // columns that are subtracted at once, a divisor of COLUMNS

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

const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = ROWS / 4;                   // of an invocation's rows
const uint LINE_QUADS = (COLUMNS + 3) / 4;     // of a pivot's row
const uint LINE = INNER + 1;

shared uint tops[GROUPS];                      // the largest magnitude of each sub-group, as an integer
shared vec4 pivot_lines[COLUMNS * LINE_QUADS]; // the rows of a set's pivots, each from its pivot on
shared uint pivots[INNER];                     // places of the pivots
shared float lower[COLUMNS * LINE];            // rows of L of the set's
shared vec4 upper[INNER * INNER / 4];          // rows of U of all
shared uint taken[2 * LANES];                  // of the rows of an invocation, those that have been pivots
#define UPPER(i, d) upper[(i) * (INNER / 4) + (d) / 4][(d) % 4]
#define ROW_OF_U(i, d) UPPER(i, d)
#include "lu-exchange.glsl"

float x[ROWS * COLUMNS];
#define X(r, d) x[(r) * COLUMNS + (d)]
#define MAGNITUDE(r) (floatBitsToUint(X(r, 0)) & 0x7fffffffu)
#define DONE(r) ((done[(r) / 32] >> (r) % 32 & 1u) != 0)

// The place of an invocation's row.
uint place_of(uint r, uint lane) { return (r / 4 * LANES + lane) * 4 + r % 4; }
// The invocation that has a place, and which of its rows it is.
uint owner(uint place) { return place / 4 % LANES; }
uint row_of_owner(uint place) { return place / (4 * LANES) * 4 + place % 4; }

// Where the quad q of an invocation's rows is in a column of P; beyond the end, the last.
uint quad(uint column, uint q, uint lane) {
    return (column * stride + min(first + (q * LANES + lane) * 4, stride - 4)) / 4;
}

bool beyond(uint q, uint lane) { return first + (q * LANES + lane) * 4 >= stride; }

#define FETCH(s)                                                                            \
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {                                         \
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {                                       \
            vec4 values = Quads(P).at[quad(plane + (s) + c, q, lane)];                      \
            [[unroll]] for (uint j = 0; j < 4; ++j) X(4 * q + j, c) = values[j];            \
        }                                                                                   \
    }

// The largest magnitude of the first column, of an invocation and of its sub-group.
#define LARGEST                                                                             \
    key = 0;                                                                                \
    [[unroll]] for (uint r = 0; r < ROWS; ++r) key = max(key, MAGNITUDE(r));                \
    top = subgroupMax(key);

#define READ(k, column)                                                                     \
    [[unroll]] for (uint q = 0; q < QUADS; ++q) {                                           \
        l[(k) * QUADS + q] = Quads(P).at[quad(plane + (column), q, lane)];                  \
    }

// Solves for the rows of U of the pivots of the set at `s`, which lie in `upper` as they have been found.
void rows_of_u(uint s, uint lane) {
    uint next_set = s + COLUMNS, rest = to - next_set;
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

void main() {
    // Numbered by sub-group, so that a position tells the sub-group that has it.
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    FETCH(from)
    taken[2 * lane] = 0;
    taken[2 * lane + 1] = 0;
    begin_exchange(lane);
    for (uint at = lane; at < from * (INNER / 4); at += LANES) upper[at] = Quads(corner).at[at];
    barrier();
    for (uint i = lane; i < from; i += LANES) {
        pivots[i] = chosen.at[i];
        uint row = row_of_owner(pivots[i]);
        atomicOr(taken[2 * owner(pivots[i]) + row / 32], 1u << row % 32);
    }
    barrier();
    // A bit for each row that has been a pivot, or is none.
    uvec2 done = uvec2(taken[2 * lane], taken[2 * lane + 1]);
    [[unroll]] for (uint q = 0; q < QUADS; ++q) if (beyond(q, lane)) done[q / 8] |= 15u << 4 * q % 32;

    for (uint s = from; s < to; s += COLUMNS) {
        uint next_set = s + COLUMNS, rest = to - next_set;
        if (s > from) {
            // Columns before the set: some are on their way while others are subtracted.
            vec4 l[AT_ONCE * QUADS];
            [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
                READ(k, from + k)
            }
            for (uint some = from; some < s; some += AT_ONCE) {
                // The rows of the last set's pivots have been on their way meanwhile.
                if (some == s - COLUMNS) rows_of_u(some, lane);
                [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
                    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                        // Four at a time, where a set begins with a whole quad.
                        vec4 four = upper[(some + k) * (INNER / 4) + s / 4 + c / 4];
                        float u = four[COLUMNS < 4 ? (s + c) % 4 : c % 4];
                        [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, c) -= l[k * QUADS + r / 4][r % 4] * u;
                    }
                    if (some + AT_ONCE < s) {
                        READ(k, some + AT_ONCE + k)
                    }
                }
            }
        }
        // Rows that have been pivots are set to zero: they are no candidates again, and later updates subtract zero from them.
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, c) = DONE(r) ? 0.0 : X(r, c);
        }
        // The columns move through the registers: the one to be factorised is always the first, and what is left of each
        // other is written a column further down. So places are constants in a loop that remains one.
        uint key, top;
        LARGEST
        for (uint c = 0; c < COLUMNS; ++c) {
            if (gl_SubgroupInvocationID == 0) tops[gl_SubgroupID] = top;
            barrier();
            uint group = gl_SubgroupInvocationID, other = tops[min(group, GROUPS - 1)];
            if (GROUPS > SUBGROUP) {
                for (uint g = group + SUBGROUP; g < GROUPS; g += SUBGROUP) {
                    group = tops[g] > other ? g : group;
                    other = max(other, tops[g]);
                }
            }
            uint largest = subgroupMax(other), leader = subgroupBallotFindLSB(subgroupBallot(other == largest));
            bool leads = gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == largest));
            if (gl_SubgroupID == (GROUPS > SUBGROUP ? subgroupShuffle(group, leader) : leader) && leads) {
                bool found = false;
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    if (found || MAGNITUDE(r) != largest) continue;
                    found = true;
                    pivots[s + c] = place_of(r, lane);
                    [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) {
                        vec4 line;
                        [[unroll]] for (uint j = 0; j < 4; ++j) line[j] = X(r, min(4 * q + j, COLUMNS - 1));
                        pivot_lines[c * LINE_QUADS + q] = line;
                    }
                }
            }
            // By the magnitude, which all know before they know the row. Where it is zero there is nothing to eliminate.
            float magnitude = uintBitsToFloat(largest), scale = scale_of(magnitude);
            float inverse = largest == 0 ? 0.0 : 1.0 / (magnitude * scale);
            barrier();
            vec4 line[LINE_QUADS];
            [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) line[q] = pivot_lines[c * LINE_QUADS + q];
            float reciprocal = line[0].x < 0.0 ? -inverse : inverse;
            uint own = owner(pivots[s + c]) == lane ? row_of_owner(pivots[s + c]) : ROWS;
            uint bit = own < ROWS ? 1u << own % 32 : 0u;
            done |= own < 32 ? uvec2(bit, 0) : uvec2(0, bit);
            // The pivot's row less itself is zero.
            float factor[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                factor[r] = r == own ? 1.0 : X(r, 0) * scale * reciprocal;
                if (COLUMNS > 1) X(r, 0) = X(r, min(1, COLUMNS - 1)) - factor[r] * line[0].y;
            }
            // The next maximum is on its way while the other columns are updated.
            LARGEST
            [[unroll]] for (uint d = 2; d < COLUMNS; ++d) {
                [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, d - 1) = X(r, d) - factor[r] * line[d / 4][d % 4];
            }
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                vec4 values = vec4(factor[4 * q], factor[4 * q + 1], factor[4 * q + 2], factor[4 * q + 3]);
                if (!beyond(q, lane)) Quads(P).at[quad(plane + s + c, q, lane)] = values;
            }
        }
        // Loads the next columns early, to overlap their latency with the solve for rows of U.
        if (rest > 0) {
            FETCH(next_set)
        }
        for (uint at = lane; at < COLUMNS * COLUMNS; at += LANES) {
            uint c = at / COLUMNS, d = at % COLUMNS;
            if (c + d < COLUMNS) UPPER(s + c, s + c + d) = pivot_lines[c * LINE_QUADS + d / 4][d % 4];
        }
        if (lane < COLUMNS && first + s + lane < n) check_pivot(status, pivot_lines[lane * LINE_QUADS].x, first + s + lane);
        if (next_set == INNER) mark_pivots(lane);
        barrier_of_memory();
        if (rest == 0) break;
        // The pivots' rows: L in the columns so far, raw in those to come.
        for (uint at = lane; at < COLUMNS * (to - from); at += LANES) {
            uint i = at / (to - from), d = from + at % (to - from);
            if (d >= s + i && d < next_set) continue;
            float value = P.at[(plane + d) * stride + first + pivots[s + i]];
            if (d < next_set) lower[i * LINE + d] = value;
            else UPPER(s + i, d) = value;
        }
    }

    if (to < INNER) {
        for (uint i = from + lane; i < to; i += LANES) chosen.at[i] = pivots[i];
        for (uint at = lane; at < (to - from) * INNER; at += LANES) {
            uint i = from + at / INNER, d = at % INNER;
            if (d >= i && d < to) corner.at[i * INNER + d] = UPPER(i, d);
        }
        return;
    }
    exchange(lane);
}
