// Takes from rows of v, from `start` on, what the block of positions at `first` contributes.
// Mapping: an octet of lanes has ROUNDS rows, one after the other; its lanes share the columns.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"
#include "subgroups.glsl"

layout(constant_id = 5) const uint ROUNDS = 1;

layout(push_constant, scalar) uniform Arguments {
    Reals T;        // L, or U, rows of `stride` elements
    Reals v;
    Reals x;
    uint n, stride;
    uint first;     // position of the block
    uint start;     // position of the first row; where rows are permuted, the row itself
};

const uint OCTET = 8;           // lanes that share a row
const uint SHARE = NB / OCTET;  // of its columns that a lane has

void main() {
    uint part = place() % OCTET, rows = gl_WorkGroupSize.x / OCTET;
    float known[SHARE];
    // There is a whole block, for something is behind it.
    [[unroll]] for (uint c = 0; c < SHARE; ++c) known[c] = x.at[AT(first + c * OCTET + part)];
    for (uint round = 0; round < ROUNDS; ++round) {
        uint row = start + (gl_WorkGroupID.x * ROUNDS + round) * rows + place() / OCTET, line = AT(min(row, n - 1));
        float factors[SHARE];
        [[unroll]] for (uint c = 0; c < SHARE; ++c) factors[c] = T.at[line * stride + AT(first + c * OCTET + part)];
        float sum = 0.0;
        [[unroll]] for (uint c = 0; c < SHARE; ++c) sum += factors[c] * known[c];
        // Over the lanes of a row.
        sum += subgroupShuffleXor(sum, 1);
        sum += subgroupShuffleXor(sum, 2);
        sum += subgroupShuffleXor(sum, 4);
        if (part == 0 && row < n) v.at[line] -= sum;
    }
}
