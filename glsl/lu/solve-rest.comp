// Takes from rows of v, from `start` on, what the block of positions at `first` contributes.
// Mapping: an octet of lanes has a row; its lanes share the columns.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"
#include "subgroups.glsl"

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
    uint part = place() % OCTET, row = start + gl_WorkGroupID.x * (gl_WorkGroupSize.x / OCTET) + place() / OCTET;
    float factors[SHARE], known[SHARE];
    [[unroll]] for (uint c = 0; c < SHARE; ++c) {
        // There is a whole block, for something is behind it.
        uint column = AT(first + c * OCTET + part);
        known[c] = x.at[column];
        factors[c] = T.at[AT(min(row, n - 1)) * stride + column];
    }
    float sum = 0.0;
    [[unroll]] for (uint c = 0; c < SHARE; ++c) sum += factors[c] * known[c];
    // Over the lanes of a row.
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    sum += subgroupShuffleXor(sum, 4);
    if (part == 0 && row < n) v.at[AT(row)] -= sum;
}
