// Takes from all of v behind the block that is being solved for, which begins at `first`, what the block before it contributes.
// Mapping: an octet of lanes has a position; its lanes share the columns.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"

void main() {
    uint part = place() % OCTET, row = first + NB + gl_WorkGroupID.x * (gl_WorkGroupSize.x / OCTET) + place() / OCTET;
    float factors[SHARE], known[SHARE];
    [[unroll]] for (uint c = 0; c < SHARE; ++c) {
        uint column = first - NB + c * OCTET + part;
        known[c] = value(column);
        factors[c] = factor(row, column);
    }
    float sum = 0.0;
    [[unroll]] for (uint c = 0; c < SHARE; ++c) sum += factors[c] * known[c];
    sum = octet_sum(sum);
    if (part == 0 && row < n) v.at[at(row)] -= sum;
}
