// Solves for the block of positions at `first`: takes from its right-hand side what the block before contributes, then solves for
// 32 positions at a time by the inverse of their diagonal block. An inverse alone would lose digits with the condition of its
// block: what its solution leaves of the right-hand side is solved for once more. All factors are in registers before the first
// of them is waited for.
// Mapping: one work-group, an invocation for a row of a tile of 32×32. The first four sub-groups of 32 solve for a part each, the
// others take from the parts behind the next one what a part contributes.
#version 460
#pragma dtypes f32
#extension GL_KHR_memory_scope_semantics : require
#include "lu-solve.glsl"
#include "subgroups.glsl"

layout(push_constant, scalar) uniform Arguments {
    Quads packed;
    Reals v;
    Reals x;
    Indices rows;  // of v, by position
    uint n;
    uint first;    // position of the block
};

const uint SHARES = gl_WorkGroupSize.x / NB;
const uint SHARE = NB / 4 / SHARES; // quads of a row that an invocation has, of the block before

shared vec4 known[NB / 4];          // the solution of the block before
shared float sums_of[SHARES * NB];
shared vec4 rights[QUADS];          // of a part, its right-hand side
shared vec4 residuals[QUADS];       // what a first solution leaves of it
shared vec4 solved[NB / 4];
shared float taken[PARTS * NB];     // what a part contributes to those behind the next one

// A row of a tile times values from quad `from` on.
#define TIMES(sum, elements, count, values, from)                                                       \
    {                                                                                                   \
        vec4 sums = elements[0] * values[from];                                                         \
        [[unroll]] for (uint c = 1; c < count; ++c) sums += elements[c] * values[(from) + c];           \
        sum = (sums.x + sums.y) + (sums.z + sums.w);                                                    \
    }

// Waits for the lanes of a part.
void meet() {
    if (SUBGROUP < INNER) {
        barrier();
    } else {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
}

void main() {
    uint place = place(), tile = place / INNER, lane = place % INNER, row = place % NB, share = place / NB;
    bool solves = tile < PARTS, helps = tile >= PARTS && tile < 2 * PARTS - 1;
    // The tiles that are not beside the diagonal: (2, 0), (3, 0), (3, 1).
    uint i = solves ? tile : min(tile - PARTS + 2, PARTS - 1), j = solves ? tile : (tile == 2 * PARTS - 2 ? 1 : 0);
    uint base = first / NB * PACKED, position = min(first + row, n - 1);
    vec4 before[SHARE], own[QUADS], inverse[QUADS], left[QUADS];
    if (CHAINED != 0 && first > 0) {
        [[unroll]] for (uint c = 0; c < SHARE; ++c) before[c] = packed.at[base + (share * SHARE + c) * NB + row];
    }
    float right = 0.0;
    if (share == 0) right = first + row < n ? v.at[PERMUTED != 0 ? rows.at[position] : AT(position)] : 0.0;
    else if (share == 1 && CHAINED != 0 && first > 0) known[row / 4][row % 4] = x.at[AT(first - NB + row)];
    [[unroll]] for (uint c = 0; c < QUADS; ++c) own[c] = packed.at[base + OWN + (j * QUADS + c) * NB + i * INNER + lane];
    if (solves) {
        [[unroll]] for (uint c = 0; c < QUADS; ++c) {
            inverse[c] = packed.at[base + INVERSES + (tile * QUADS + c) * INNER + lane];
            left[c] = packed.at[base + OWN + (max(tile, 1) * QUADS - QUADS + c) * NB + row];
        }
    }
    if (CHAINED != 0 && first > 0) {
        barrier();
        float sum;
        TIMES(sum, before, SHARE, known, share * SHARE)
        if (share > 0) sums_of[place] = sum;
        barrier();
        right -= sum;
        [[unroll]] for (uint s = 1; s < SHARES; ++s) right -= sums_of[s * NB + row];
    }
    for (uint b = 0; b < PARTS; ++b) {
        bool turn = tile == b;
        float first_solution = 0.0;
        if (turn) {
            if (b > 0) {
                float sum;
                TIMES(sum, left, QUADS, solved, (b - 1) * QUADS)
                right -= sum;
            }
            for (uint k = 0; k + 1 < b; ++k) right -= taken[k * NB + row];
            rights[lane / 4][lane % 4] = right;
        }
        meet();
        if (turn) {
            TIMES(first_solution, inverse, QUADS, rights, 0)
            solved[row / 4][row % 4] = first_solution;
        }
        meet();
        if (turn) {
            float sum;
            TIMES(sum, own, QUADS, solved, b * QUADS)
            residuals[lane / 4][lane % 4] = right - sum;
        }
        meet();
        if (turn) {
            float correction;
            TIMES(correction, inverse, QUADS, residuals, 0)
            solved[row / 4][row % 4] = first_solution + correction;
            if (first + row < n) x.at[AT(first + row)] = first_solution + correction;
        }
        barrier();
        if (helps && j == b) {
            float sum;
            TIMES(sum, own, QUADS, solved, b * QUADS)
            taken[j * NB + i * INNER + lane] = sum;
        }
    }
}
