// Solves for the block of v at `first`: takes from it what the block before it contributes, then substitutes. One sub-group
// solves for as many positions as it has lanes, by shuffles; between two such steps all sub-groups bring the rest of the
// block up to date.
// Mapping: one work-group.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"

const uint PITCH = SUBGROUP + 1;                              // of a row of `corner`: columns lie in different banks
const uint ROWS = (NB + SUBGROUPS - 1) / SUBGROUPS;           // of a block for each sub-group
const uint COLUMNS = NB / SUBGROUP;                           // of a block for each lane
const uint STAGED = (NB * SUBGROUP + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // of `corner` for each invocation

shared float rest[NB];            // what is left of v, then the solution
shared float corner[NB * PITCH];  // the diagonal blocks of SUBGROUP columns, one below the other

// The solution in the positions of a sub-group's lanes, from what is left of v there.
float substituted(uint base, uint lane, float left) {
    Divisor by = divisor(SIDE == 0 ? 1.0 : corner[(base + lane) * PITCH + lane]);
    for (uint eight = 0; eight < SUBGROUP; eight += 8) {
        [[unroll]] for (uint k = 0; k < 8; ++k) {
            uint column = eight + k;
            if (column >= SUBGROUP) continue;
            float loaded = corner[(base + lane) * PITCH + column];
            left -= (lane > column ? loaded : 0.0) * subgroupShuffle(SIDE == 0 ? left : quotient(left, by), column);
        }
    }
    return SIDE == 0 ? left : quotient(left, by);
}

void main() {
    uint own = place() / SUBGROUP, lane = place() % SUBGROUP;
    // All loads are on their way before the first is waited for.
    float staged[STAGED];
    [[unroll]] for (uint j = 0; j < STAGED; ++j) {
        uint i = j * gl_WorkGroupSize.x + place(), row = i / SUBGROUP;
        staged[j] = factor(first + row, first + row / SUBGROUP * SUBGROUP + i % SUBGROUP);
    }
    float sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = 0.0;
    if (first > 0) {
        float factors[ROWS * COLUMNS], solved[COLUMNS];
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            uint column = first - NB + c * SUBGROUP + lane;
            solved[c] = value(column);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) factors[c * ROWS + r] = factor(first + own + r * SUBGROUPS, column);
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += factors[c * ROWS + r] * solved[c];
        }
    }
    [[unroll]] for (uint j = 0; j < STAGED; ++j) {
        uint i = j * gl_WorkGroupSize.x + place(), row = i / SUBGROUP;
        float diagonal = i % SUBGROUP == row % SUBGROUP ? 1.0 : 0.0;
        if (row < NB) corner[row * PITCH + i % SUBGROUP] = first + row < n ? staged[j] : diagonal;
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint row = own + r * SUBGROUPS;
        float sum = subgroup_sum(sums[r]);
        if (lane == 0 && row < NB) rest[row] = value(first + row) - sum;
    }
    barrier();
    for (uint base = 0; base < NB; base += SUBGROUP) {
        float factors[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = base + SUBGROUP + own + r * SUBGROUPS;
            factors[r] = factor(first + row, first + base + lane);
        }
        if (own == 0) {
            uint position = first + base + lane;
            float solved = substituted(base, lane, rest[base + lane]);
            rest[base + lane] = solved;
            if (position < n) {
                v.at[at(position)] = solved;
                if (SIDE != 0) check_pivot(status, corner[(base + lane) * PITCH + lane], at(position));
            }
        }
        barrier();
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint row = base + SUBGROUP + own + r * SUBGROUPS;
            float sum = subgroup_sum(factors[r] * rest[base + lane]);
            if (lane == 0 && row < NB) rest[row] -= sum;
        }
        barrier();
    }
}
