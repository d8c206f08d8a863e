// Solves for the block of v at `first`: takes from it what the block before it contributes, then solves for 32 positions at a time
// by the inverse of their diagonal block, and takes what they contribute from the rest of the block. An inverse alone would lose
// digits with the condition of its block: what its solution leaves of v is solved for once more. All factors are in registers
// before the first of them is waited for.
// Mapping: one work-group; an octet of lanes has every 32nd row, and a lane of it every 8th column.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"

const uint PARTS = NB / INNER;
const uint OWN = INNER / OCTET;  // columns of a lane in a diagonal block

shared float rest[NB];      // what is left of v
shared float residual[NB];  // what a first solution leaves of it
shared float solved[NB];

// An octet's row of a diagonal block, whose elements begin at `from`, times 32 values of the block.
#define TIMES(elements, from, values)                                                               \
    octet_sum(elements[(from)] * values[b * INNER + part] + elements[(from) + 1] * values[b * INNER + OCTET + part] + \
              elements[(from) + 2] * values[b * INNER + 2 * OCTET + part] + elements[(from) + 3] * values[b * INNER + 3 * OCTET + part])

void main() {
    uint row = place() / OCTET, part = place() % OCTET;
    // Constant bounds: one that depends on another loop's variable would put the arrays into memory.
    float inverse[PARTS * OWN], below[PARTS * PARTS * OWN];
    [[unroll]] for (uint b = 0; b < PARTS; ++b) {
        uint blocks = (n - 1) / INNER + 1, from = (SIDE * blocks + min(first / INNER + b, blocks - 1)) * INNER * INNER;
        [[unroll]] for (uint c = 0; c < OWN; ++c) {
            uint column = c * OCTET + part;
            inverse[b * OWN + c] = inverses.at[from + row * INNER + column];
            [[unroll]] for (uint i = 0; i < PARTS; ++i) {
                if (i >= b) below[(b * PARTS + i) * OWN + c] = factor(first + i * INNER + row, first + b * INNER + column);
            }
        }
    }
    float sums[PARTS];
    [[unroll]] for (uint i = 0; i < PARTS; ++i) sums[i] = 0.0;
    if (first > 0) {
        float factors[PARTS * SHARE], known[SHARE];
        [[unroll]] for (uint c = 0; c < SHARE; ++c) {
            uint column = first - NB + c * OCTET + part;
            known[c] = value(column);
            [[unroll]] for (uint i = 0; i < PARTS; ++i) factors[c * PARTS + i] = factor(first + i * INNER + row, column);
        }
        [[unroll]] for (uint c = 0; c < SHARE; ++c) {
            [[unroll]] for (uint i = 0; i < PARTS; ++i) sums[i] += factors[c * PARTS + i] * known[c];
        }
    }
    [[unroll]] for (uint i = 0; i < PARTS; ++i) {
        float sum = octet_sum(sums[i]);
        if (part == 0) rest[i * INNER + row] = value(first + i * INNER + row) - sum;
    }
    barrier();
    [[unroll]] for (uint b = 0; b < PARTS; ++b) {
        float first_sum = TIMES(inverse, b * OWN, rest);
        if (part == 0) solved[b * INNER + row] = first_sum;
        barrier();
        float kept = TIMES(below, (b * PARTS + b) * OWN, solved);
        if (part == 0) residual[b * INNER + row] = rest[b * INNER + row] - kept;
        barrier();
        float correction = TIMES(inverse, b * OWN, residual);
        if (part == 0) solved[b * INNER + row] += correction;
        barrier();
        [[unroll]] for (uint i = 0; i < PARTS; ++i) {
            if (i <= b) continue;
            float taken = TIMES(below, (b * PARTS + i) * OWN, solved);
            if (part == 0) rest[i * INNER + row] -= taken;
        }
        barrier();
    }
    if (place() < NB && first + place() < n) v.at[at(first + place())] = solved[place()];
}
