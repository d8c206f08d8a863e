// Factorises columns `from` to `to` of an inner block of 32 with partial pivoting: the largest magnitude of a column is its
// pivot, of equal ones the first. One work-group, since every column waits for the pivot of the one before.
//
// The block is in P, column by column. COLUMNS of it at a time are in registers, ROWS rows an invocation: as many as a
// group's registers hold. Of those MICRO at a time are what a step works on: it is a maximum over the rows of an invocation, one
// over its sub-group, a barrier, and one over the sub-groups, each of which has left its candidate's row beside its maximum,
// so that the row of the pivot can be read at once. After MICRO steps the other columns in registers follow at once, and before
// COLUMNS columns are factorised they are brought up to date with those before them.
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
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint MICRO = 8;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint BALLOT = 0;

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
const uint QUADS = (MICRO + 3) / 4;
const uint LINE = INNER + 1;

shared uvec2 candidates[2 * GROUPS];      // magnitudes as integers, and positions from `first` on
shared vec4 lines[2 * GROUPS * QUADS];    // their rows
shared uint pivots[INNER];                // positions from `first` on
shared float lower[INNER * LINE];         // rows of L of some pivots
shared float upper[INNER * INNER];        // rows of U of the pivots
shared uint taken[LANES];                 // of the rows of an invocation, those that have been pivots
shared uint stays[INNER];                 // whether a row of the first 32 is a pivot
shared uint sources[2 * INNER], targets[2 * INNER], moved;

// A barrier after which the group sees what it wrote to buffers.
void barrier_of_memory() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// The invocation that has a position, and which of its rows it is.
uint owner(uint place) { return place / 4 % LANES; }
uint row_of_owner(uint place) { return place / (4 * LANES) * 4 + place % 4; }

// Where the quad q of an invocation's rows is in a column of P; beyond the end, the last.
uint quad(uint column, uint q, uint lane) {
    return (column * stride + min(first + (q * LANES + lane) * 4, stride - 4)) / 4;
}

void main() {
    // Numbered by sub-group, so that a position tells the sub-group that has it.
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    taken[lane] = 0;
    barrier();
    for (uint i = lane; i < from; i += LANES) {
        pivots[i] = chosen.at[i];
        atomicOr(taken[owner(pivots[i])], 1u << row_of_owner(pivots[i]));
    }
    barrier();
    uint done = taken[lane];  // a bit for each of its rows, 32 at most
#define DONE(r) ((done >> (r) & 1u) != 0)
#define OFFSET(r) ((r) / 4 * 4 * LANES + (r) % 4)
#define X(r, d) x[(r) * COLUMNS + (d)]
    [[unroll]] for (uint r = 0; r < ROWS; ++r) if (first + OFFSET(r) + lane * 4 >= stride) done |= 1u << r;

    float x[ROWS * COLUMNS];
    for (uint s = from; s < to; s += COLUMNS) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (uint q = 0; q < ROWS / 4; ++q) {
                vec4 values = Quads(P).at[quad(plane + s + c, q, lane)];
                [[unroll]] for (uint j = 0; j < 4; ++j) X(4 * q + j, c) = values[j];
            }
        }
        for (uint k = from; k < s; ++k) {
            vec4 l[ROWS / 4];
            [[unroll]] for (uint q = 0; q < ROWS / 4; ++q) l[q] = Quads(P).at[quad(plane + k, q, lane)];
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                float u = upper[k * INNER + s + c];
                [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, c) -= l[r / 4][r % 4] * u;
            }
        }

        for (uint m = s; m < s + COLUMNS; m += MICRO) {
            // What is done is zero from then on: it is no pivot, and what is taken from it is zero times something.
            [[unroll]] for (uint c = 0; c < MICRO; ++c) {
                [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, c) = DONE(r) ? 0.0 : X(r, c);
            }
            // The columns move through the registers: the one to be factorised is always the first, and what is left of each
            // other is written a column further down, the factors behind them. So places are constants in a loop that remains one.
            for (uint c = 0; c < MICRO; ++c) {
                // Two sets of candidates, so that one barrier a column is enough.
                uint set = c % 2 * GROUPS, key = 0, best = 0;
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    uint own = floatBitsToUint(X(r, 0)) & 0x7fffffffu;
                    best = own > key ? OFFSET(r) : best;
                    key = max(key, own);
                }
                uint top = subgroupMax(key), place = lane * 4 + best;
                bool leads;
                if (BALLOT != 0) {
                    leads = gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == top));
                } else {
                    uint least = subgroupMin(key == top ? place : ~0u);
                    leads = key == top && place == least;
                }
                if (leads) {
                    candidates[set + gl_SubgroupID] = uvec2(top, place);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        if (best != OFFSET(r)) continue;
                        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                            vec4 line;
                            // Behind the columns that are left are factors, which stay as they are.
                            [[unroll]] for (uint j = 0; j < 4; ++j) {
                                line[j] = 4 * q + j + c < MICRO ? X(r, min(4 * q + j, MICRO - 1)) : 0.0;
                            }
                            lines[(set + gl_SubgroupID) * QUADS + q] = line;
                        }
                    }
                }
                barrier();
                uvec2 candidate = uvec2(0, ~0u);
                for (uint g = gl_SubgroupInvocationID; g < GROUPS; g += SUBGROUP) {
                    uvec2 other = candidates[set + g];
                    if (other.x > candidate.x || (other.x == candidate.x && other.y < candidate.y)) candidate = other;
                }
                uint where;
                bool largest = candidate.x == subgroupMax(candidate.x);
                if (BALLOT != 0) {
                    where = subgroupShuffle(candidate.y, subgroupBallotFindLSB(subgroupBallot(largest)));
                } else {
                    where = subgroupMin(largest ? candidate.y : ~0u);
                }
                uint winner = set + owner(where) / SUBGROUP;
                vec4 line[QUADS];
                [[unroll]] for (uint q = 0; q < QUADS; ++q) line[q] = lines[winner * QUADS + q];
                if (lane < MICRO - c) upper[(m + c) * INNER + m + c + lane] = lines[winner * QUADS + lane / 4][lane % 4];
                if (lane == 0) pivots[m + c] = where;
                uint own = owner(where) == lane ? row_of_owner(where) : ~0u;
                done |= own < ROWS ? 1u << own : 0u;
                Divisor by = divisor(line[0].x);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    float factor = own == r ? 1.0 : X(r, 0) * by.scale * by.reciprocal;
                    [[unroll]] for (uint d = 1; d < MICRO; ++d) X(r, d - 1) = X(r, d) - factor * line[d / 4][d % 4];
                    X(r, MICRO - 1) = factor;
                }
            }
            [[unroll]] for (uint k = 0; k < MICRO; ++k) {
                [[unroll]] for (uint q = 0; q < ROWS / 4; ++q) {
                    vec4 values = vec4(X(4 * q, k), X(4 * q + 1, k), X(4 * q + 2, k), X(4 * q + 3, k));
                    if (first + (q * LANES + lane) * 4 < stride) Quads(P).at[quad(plane + m + k, q, lane)] = values;
                }
            }
            barrier();
            if (lane < MICRO && first + m + lane < n) check_pivot(status, upper[(m + lane) * LINE], first + m + lane);
            if (COLUMNS == MICRO || m + MICRO == s + COLUMNS) continue;

            // The other columns in registers: the pivots' rows of them, from which U is solved for, then all.
            for (uint i = 0; i < MICRO; ++i) {
                if (owner(pivots[m + i]) != lane) continue;
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    if (row_of_owner(pivots[m + i]) != r) continue;
                    [[unroll]] for (uint k = 0; k < MICRO; ++k) lower[i * LINE + k] = X(r, k);
                    [[unroll]] for (uint d = MICRO; d < COLUMNS; ++d) {
                        if (m + d < s + COLUMNS) upper[(m + i) * INNER + m + d] = X(r, d);
                    }
                }
            }
            barrier();
            uint column = m + MICRO + lane;
            if (column < s + COLUMNS) {
                float u[MICRO];
                [[unroll]] for (uint i = 0; i < MICRO; ++i) {
                    u[i] = upper[(m + i) * INNER + column];
                    [[unroll]] for (uint k = 0; k < MICRO; ++k) if (k < i) u[i] -= lower[i * LINE + k] * u[k];
                    upper[(m + i) * INNER + column] = u[i];
                }
            }
            barrier();
            float l[ROWS * MICRO];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                [[unroll]] for (uint k = 0; k < MICRO; ++k) l[r * MICRO + k] = X(r, k);
            }
            [[unroll]] for (uint d = MICRO; d < COLUMNS; ++d) {
                [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, d - MICRO) = X(r, d);
                // Columns that are none repeat the last.
                uint from_row = m * INNER + min(m + d, s + COLUMNS - 1);
                [[unroll]] for (uint k = 0; k < MICRO; ++k) {
                    float u = upper[from_row + k * INNER];
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, d - MICRO) -= l[r * MICRO + k] * u;
                }
            }
        }
        barrier_of_memory();
        // The pivots' rows of U in the columns to come.
        uint next = s + COLUMNS, rest = to - next;
        if (rest == 0) break;
        for (uint at = lane; at < COLUMNS * rest; at += LANES) {
            upper[(s + at / rest) * INNER + next + at % rest] = P.at[(plane + next + at % rest) * stride + first + pivots[s + at / rest]];
        }
        for (uint at = lane; at < COLUMNS * (next - from); at += LANES) {
            uint i = at % COLUMNS, k = from + at / COLUMNS;
            lower[i * LINE + k] = P.at[(plane + k) * stride + first + pivots[s + i]];
        }
        barrier();
        if (s > from) {
            for (uint at = lane; at < COLUMNS * rest; at += LANES) {
                uint i = at / rest, d = next + at % rest;
                float sum = upper[(s + i) * INNER + d];
                for (uint k = from; k < s; ++k) sum -= lower[i * LINE + k] * upper[k * INNER + d];
                upper[(s + i) * INNER + d] = sum;
            }
            barrier();
        }
        for (uint d = next + lane; d < to; d += LANES) {
            float u[COLUMNS];
            [[unroll]] for (uint i = 0; i < COLUMNS; ++i) {
                u[i] = upper[(s + i) * INNER + d];
                [[unroll]] for (uint k = 0; k < COLUMNS; ++k) if (k < i) u[i] -= lower[i * LINE + s + k] * u[k];
                upper[(s + i) * INNER + d] = u[i];
            }
        }
        barrier();
    }

    if (to < INNER) {
        for (uint i = from + lane; i < to; i += LANES) chosen.at[i] = pivots[i];
        for (uint at = lane; at < (to - from) * INNER; at += LANES) {
            uint i = from + at / INNER, d = at % INNER;
            if (d >= i && d < to) corner.at[i * INNER + d] = upper[i * INNER + d];
        }
        return;
    }
    // The rows of U, over what the steps have left there. Each begins with its pivot.
    for (uint at = lane; at < INNER * INNER; at += LANES) {
        uint i = at / INNER, d = at % INNER;
        float value = i < from ? corner.at[at] : upper[at];
        if (d >= i) P.at[(plane + d) * stride + first + pivots[i]] = value;
    }

    // Where rows go: the pivots to the front, those that stood there to where pivots were.
    for (uint i = lane; i < INNER; i += LANES) stays[i] = 0;
    barrier();
    for (uint i = lane; i < INNER; i += LANES) if (pivots[i] < INNER) stays[pivots[i]] = 1;
    barrier();
    for (uint i = lane; i < INNER; i += LANES) {
        uint vacated = 0, displaced = 0;
        for (uint j = 0; j < i; ++j) {
            vacated += pivots[j] < INNER ? 0 : 1;
            displaced += 1 - stays[j];
        }
        sources[i] = first + pivots[i];
        targets[i] = first + i;
        if (pivots[i] >= INNER) targets[INNER + vacated] = first + pivots[i];
        if (stays[i] == 0) sources[INNER + displaced] = first + i;
        // They are as many as those, unless a column of zeros had no pivot: then one row is taken for two, which fails the case.
        if (i == INNER - 1) {
            moved = INNER + min(vacated + (pivots[i] < INNER ? 0 : 1), displaced + 1 - stays[i]);
        }
    }
    barrier_of_memory();
    uint row = 0;  // of W; there are 64 invocations at least
    if (lane < moved) row = rows.at[sources[lane]];
    for (uint column = 0; column < plane + INNER; column += LANES / 8) {
        float values[8];
        [[unroll]] for (uint i = 0; i < 8; ++i) {
            uint at = i * LANES + lane, e = at % (2 * INNER), from = column + at / (2 * INNER);
            if (e < moved && from < plane + INNER) values[i] = P.at[from * stride + sources[e]];
        }
        barrier_of_memory();
        [[unroll]] for (uint i = 0; i < 8; ++i) {
            uint at = i * LANES + lane, e = at % (2 * INNER), to = column + at / (2 * INNER);
            if (e < moved && to < plane + INNER) P.at[to * stride + targets[e]] = values[i];
        }
    }
    if (lane < moved) rows.at[targets[lane]] = row;
}
