// Counterpart of pivot-panel for panels of so few rows that all 32 columns are in registers at once.
//
// A step is a maximum over the rows of an invocation, one over its sub-group, a barrier, and one over the sub-groups; each of those
// has left its candidate's row beside its maximum, so that the row of the pivot can be read at once.
// Mapping: one work-group, place r·LANES + lane.
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
layout(constant_id = 2) const uint SUBGROUP = 32;

layout(push_constant, scalar) uniform Arguments {
    Reals P;
    Indices rows;
    Status status;
    uint n, stride;
    uint first;  // row and column of the inner block
    uint plane;  // its first column in P
};

const uint COLUMNS = INNER;
const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = COLUMNS / 4;

shared uint keys[2 * GROUPS];           // magnitudes of candidates, as integers
shared uint places[2 * GROUPS];
shared vec4 lines[2 * GROUPS * QUADS];  // their rows
shared uint pivots[INNER];              // places
shared float upper[INNER * COLUMNS];    // their rows of U, each from its pivot on
#define ROW_OF_U(i, d) upper[(i) * COLUMNS + (d) - (i)]
#include "lu-exchange.glsl"

void main() {
    // Numbered by sub-group, so that a place tells the sub-group that has it.
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
#define PLACE(r) ((r) * LANES + lane)
#define X(r, d) x[(r) * COLUMNS + (d)]
    // Elimination leaves zeros in the pivot's own row: it is no candidate again, and later updates subtract zero from it.
    float x[ROWS * COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            float value = P.at[(plane + c) * stride + min(first + PLACE(r), stride - 1)];
            x[r * COLUMNS + c] = first + PLACE(r) < stride ? value : 0.0;
        }
    }

    begin_exchange(lane);
    // Places beyond the last row have read that row, which its own invocation overwrites.
    barrier_of_memory();

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
        uint where = places[winner], column = (plane + c) * stride + first;
        vec4 line[QUADS];
        [[unroll]] for (uint q = 0; q < QUADS; ++q) line[q] = lines[winner * QUADS + q];
        if (lane < COLUMNS) upper[c * COLUMNS + lane] = lines[winner * QUADS + lane / 4][lane % 4];
        if (lane == 0) {
            pivots[c] = where;
            if (first + c < n) check_pivot(status, line[0].x, first + c);
        }
        Divisor by = divisor(line[0].x);
        float factor[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            bool own = PLACE(r) == where;
            factor[r] = own ? 1.0 : quotient(x[r * COLUMNS], by);
            if (first + PLACE(r) < stride) P.at[column + PLACE(r)] = factor[r];
        }
        [[unroll]] for (uint d = 1; d < COLUMNS; ++d) {
            float u = line[d / 4][d % 4];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                x[r * COLUMNS + d - 1] = x[r * COLUMNS + d] - factor[r] * u;
            }
        }
    }
    barrier();
    mark_pivots(lane);
    barrier_of_memory();
    exchange(lane);
}
