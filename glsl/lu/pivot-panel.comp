// Factorises an inner block of 32 columns with partial pivoting: the largest magnitude of a column is its pivot. One work-group, since every column waits for the pivot of the one before.
//
// The block is in P, column by column. COLUMNS of it at a time are in registers, ROWS rows an invocation: as many as a
// group's registers hold. A step is a maximum over the rows of an invocation, one over its sub-group, a barrier, and one over the
// sub-groups; each of those has left its candidate's row beside its maximum, so that the row of the pivot can be read at once.
// Before COLUMNS columns are factorised they are brought up to date with those of the block that have been.
//
// No row is moved meanwhile, nor later in W: at the end 32 pivots change places with the rows that stood in theirs, in the columns of
// this outer block, which are in P, and in `rows`, through which all others are found.
// Mapping: one work-group, position r·LANES + lane.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint SUBGROUP = 32;

layout(push_constant, scalar) uniform Arguments {
    Reals P;
    Indices rows;
    Status status;
    uint n, stride;
    uint first;  // row and column of the inner block
    uint plane;  // its first column in P
};

const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = (COLUMNS + 3) / 4;
const uint AT_ONCE = ROWS >= 16 ? 1 : (ROWS >= 8 ? 2 : 4);  // columns that are subtracted at once
const uint LINE = INNER + 1;

shared uint keys[2 * GROUPS];               // magnitudes of candidates, as integers, plus one
shared uint places[2 * GROUPS];             // their positions
shared vec4 lines[2 * GROUPS * QUADS];      // their rows
shared uint pivots[INNER];                  // positions
shared float lower[INNER * LINE];           // rows of L of the pivots so far
shared float upper[INNER * COLUMNS];        // their rows of U in these columns
shared uint stays[INNER];                   // whether a row of the first 32 is a pivot
shared uint sources[2 * INNER], targets[2 * INNER], moved;

// A barrier after which the group sees what it wrote to buffers.
void barrier_of_memory() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

void main() {
    // Numbered by sub-group, so that a position tells the sub-group that has it.
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uvec2 done = uvec2(0);  // a bit for each of its rows, 64 at most
#define DONE(r) ((done[(r) / 32] >> (r) % 32 & 1u) != 0)
#define PLACE(r) (first + (r) * LANES + lane)
#define X(r, d) ((d) < COLUMNS ? x[(r) * COLUMNS + min(d, COLUMNS - 1)] : 0.0)
    [[unroll]] for (uint r = 0; r < ROWS; ++r) if (PLACE(r) >= stride) done[r / 32] |= 1u << r % 32;

    // What is done is zero from then on: it is no pivot, and what is taken from it is zero times something.
    float x[ROWS * COLUMNS];
    for (uint s = 0; s < INNER; s += COLUMNS) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                float value = P.at[(plane + s + c) * stride + min(PLACE(r), stride - 1)];
                x[r * COLUMNS + c] = DONE(r) ? 0.0 : value;
            }
        }
        if (s > 0) {
            for (uint at = lane; at < s * COLUMNS; at += LANES) {
                upper[at] = P.at[(plane + s + at % COLUMNS) * stride + pivots[at / COLUMNS]];
            }
            for (uint at = lane; at < s * INNER; at += LANES) {
                uint i = at / INNER, k = at % INNER;
                if (k < i) lower[i * LINE + k] = P.at[(plane + k) * stride + pivots[i]];
            }
            barrier();
            if (lane < COLUMNS) {
                for (uint i = 1; i < s; ++i) {
                    float sum = upper[i * COLUMNS + lane];
                    for (uint k = 0; k < i; ++k) sum -= lower[i * LINE + k] * upper[k * COLUMNS + lane];
                    upper[i * COLUMNS + lane] = sum;
                }
            }
            barrier();
            for (uint some = 0; some < s; some += AT_ONCE) {
                float l[AT_ONCE * ROWS];
                [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        float value = P.at[(plane + some + k) * stride + min(PLACE(r), stride - 1)];
                        l[k * ROWS + r] = DONE(r) ? 0.0 : value;
                    }
                }
                [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
                    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                        float u = upper[(some + k) * COLUMNS + c];
                        [[unroll]] for (uint r = 0; r < ROWS; ++r) x[r * COLUMNS + c] -= l[k * ROWS + r] * u;
                    }
                }
            }
        }

        // The columns move through the registers: the one to be factorised is always the first, and what is left of each
        // other is written a column further down. So places are constants in a loop that remains one.
        for (uint c = 0; c < COLUMNS; ++c) {
            // Two sets of candidates, so that one barrier a column is enough.
            uint set = c % 2 * GROUPS, key = 0, best = 0;
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                uint own = floatBitsToUint(x[r * COLUMNS]) & 0x7fffffffu;
                best = own > key ? r : best;
                key = max(key, own);
            }
            uint top = subgroupMax(key);
            if (gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == top))) {
                keys[set + gl_SubgroupID] = top;
                places[set + gl_SubgroupID] = PLACE(best);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    if (best != r) continue;
                    [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                        lines[(set + gl_SubgroupID) * QUADS + q] = vec4(X(r, 4 * q), X(r, 4 * q + 1), X(r, 4 * q + 2), X(r, 4 * q + 3));
                    }
                }
            }
            barrier();
            uint group = gl_SubgroupInvocationID;
            key = group < GROUPS ? keys[set + group] : 0;
            if (GROUPS > SUBGROUP) {
                for (uint g = group + SUBGROUP; g < GROUPS; g += SUBGROUP) {
                    group = keys[set + g] > key ? g : group;
                    key = max(key, keys[set + g]);
                }
            }
            uint leader = subgroupBallotFindLSB(subgroupBallot(key == subgroupMax(key)));
            uint winner = set + (GROUPS > SUBGROUP ? subgroupShuffle(group, leader) : leader);
            uint where = places[winner], column = (plane + s + c) * stride;
            vec4 line[QUADS];
            [[unroll]] for (uint q = 0; q < QUADS; ++q) line[q] = lines[winner * QUADS + q];
            if (lane < COLUMNS) upper[(s + c) * COLUMNS + lane] = lines[winner * QUADS + lane / 4][lane % 4];
            if (lane == 0) {
                pivots[s + c] = where;
                if (first + s + c < n) check_pivot(status, line[0].x, first + s + c);
            }
            Divisor by = divisor(line[0].x);
            float factor[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                bool own = PLACE(r) == where;
                factor[r] = own ? 1.0 : quotient(x[r * COLUMNS], by);
                done[r / 32] |= own ? 1u << r % 32 : 0u;
                if (PLACE(r) < stride) P.at[column + PLACE(r)] = factor[r];
            }
            [[unroll]] for (uint d = 1; d < COLUMNS; ++d) {
                float u = line[d / 4][d % 4];
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    x[r * COLUMNS + d - 1] = x[r * COLUMNS + d] - factor[r] * u;
                }
            }
        }
        barrier_of_memory();
        // The rows of U of all pivots so far, over what the steps have left there. Of this set's, each begins with its pivot.
        for (uint at = lane; at < (s + COLUMNS) * COLUMNS; at += LANES) {
            uint i = at / COLUMNS, d = at % COLUMNS, c = s + d + (i < s ? 0 : i - s);
            if (c < s + COLUMNS) P.at[(plane + c) * stride + pivots[i]] = upper[at];
        }
        barrier_of_memory();
    }

    // Where rows go: the pivots to the front, those that stood there to where pivots were.
    for (uint i = lane; i < INNER; i += LANES) stays[i] = 0;
    barrier();
    for (uint i = lane; i < INNER; i += LANES) if (pivots[i] - first < INNER) stays[pivots[i] - first] = 1;
    barrier();
    for (uint i = lane; i < INNER; i += LANES) {
        uint vacated = 0, displaced = 0;
        for (uint j = 0; j < i; ++j) {
            vacated += pivots[j] - first < INNER ? 0 : 1;
            displaced += 1 - stays[j];
        }
        sources[i] = pivots[i];
        targets[i] = first + i;
        if (pivots[i] - first >= INNER) targets[INNER + vacated] = pivots[i];
        if (stays[i] == 0) sources[INNER + displaced] = first + i;
        // They are as many as those, unless a column of zeros had no pivot: then one row is taken for two, which fails the case.
        if (i == INNER - 1) {
            moved = INNER + min(vacated + (pivots[i] - first < INNER ? 0 : 1), displaced + 1 - stays[i]);
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
