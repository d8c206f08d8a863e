// Takes from all of v behind the block that is being solved for, which begins at `first`, what the block before it contributes.
// Mapping: a sub-group has ROWS positions; its lanes share their columns.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"

layout(constant_id = 4) const uint ROWS = 4;

const uint COLUMNS = NB / SUBGROUP;  // for each lane

void main() {
    uint own = place() / SUBGROUP, lane = place() % SUBGROUP;
    uint top = first + NB + (gl_WorkGroupID.x * SUBGROUPS + own) * ROWS;
    float sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = 0.0;
    float factors[ROWS * COLUMNS], solved[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        uint column = first - NB + c * SUBGROUP + lane;
        solved[c] = value(column);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) factors[c * ROWS + r] = factor(top + r, column);
    }
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += factors[c * ROWS + r] * solved[c];
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float sum = subgroup_sum(sums[r]);
        if (lane == 0 && top + r < n) v.at[at(top + r)] -= sum;
    }
}
