// C = A·B of f32 on matrix units for f16: A and B come as halves (see split.glsl), and of the four products of halves
// three are summed up, in f32. The fourth, low by low, is 2^−22 of the whole.
//
// Staged as in `coopmat`. The halves are padded to whole blocks along K and N, so that every read is of 16 bytes.
// Source: H. Ootomo, R. Yokota, "Recovering single precision accuracy from tensor cores while surpassing the FP32
// theoretical peak performance", 2022 (arXiv 2203.03341).
// With IN_PARTS over parts of K: see matmul-parts.glsl.
#version 460
#pragma dtypes f32
#pragma kernel split
#pragma kernel split-parts IN_PARTS
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "split.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 16;
layout(constant_id = 12) const uint CHUNK = 64;  // slabs that the matrix units sum up alone

#define PIECE 8
#define OUT float
#define OUT_BITS 32
#define OUT_RAW uint
#define round_to_out(sums)
#include "matmul-warps.glsl"
#include "matmul-store.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Largest { uint bits; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Sums { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { float at[]; };
layout(push_constant, scalar) uniform Arguments {
    Pieces A_HIGH, A_LOW;  // M×K in panels of BK columns, one below the other; K padded to a multiple of BK
    Pieces B_HIGH, B_LOW;  // K×N, N padded to a multiple of BN
    Largest LARGEST_A, LARGEST_B;
    Sums SUMS;  // of each component of C, both extents padded
    Result C;
    uint M, N;
    uint PIECES_OF_K, PIECES_OF_N;  // the padded extents in pieces of 8
#if defined(IN_PARTS)
    uint PARTS;
#endif
};
#define SLABS_OF_K (PIECES_OF_K / PIECES_IN_ROW_A)
#include "matmul-parts.glsl"

const uint SLABS = 2 * (SLAB_A + SLAB_B);
shared uvec4 tiles[SLABS > STAGED_C ? SLABS : STAGED_C];  // high and low halves of A, then those of B
const uint HALVES_OF_B = 2 * SLAB_A;
const uint COMPONENTS = TM * TN / LANES_PER_WARP;  // of a matrix of sums, where each invocation has as many

// Reads this invocation's pieces of slab `slab` into next_a and next_b, of each the high halves and then the low ones. The block
// begins at (first_row, first_column) of C, and the invocation is number `lane` of the work-group. A macro, for GLSL passes no
// arrays whose length is a specialization constant.
//
// Behind the last slab, `end` - 1, there is nothing to fetch: the last once more is one branch less. Of A, a slab is one stretch of memory,
// since what the caches deliver is counted in lines.
#define FETCH(next_a, next_b, slab, end, first_row, first_column, lane)                                     \
    {                                                                                                       \
        uint fetched = min(slab, (end)-1);                                                                  \
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {                                                 \
            uint at = i * LANES + lane;                                                                     \
            uint from = (fetched * M + min(first_row + at / PIECES_IN_ROW_A, M - 1)) * PIECES_IN_ROW_A +    \
                        at % PIECES_IN_ROW_A;                                                               \
            next_a[2 * i] = A_HIGH.at[from];                                                                \
            next_a[2 * i + 1] = A_LOW.at[from];                                                             \
        }                                                                                                   \
        [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {                                                 \
            uint at = i * LANES + lane;                                                                     \
            uint from = (fetched * BK + at / PIECES_IN_ROW_B) * PIECES_OF_N + first_column / PIECE +        \
                        at % PIECES_IN_ROW_B;                                                               \
            next_b[2 * i] = B_HIGH.at[from];                                                                \
            next_b[2 * i + 1] = B_LOW.at[from];                                                             \
        }                                                                                                   \
    }

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = (STRIP * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    uint first_column = gl_WorkGroupID.y * BN;
    if (first_row >= M) return;  // uniform in the group: the last strip may be narrower

    uint warp = gl_SubgroupID;
    uint warp_row = warp / WARPS_ACROSS * WM;
    uint warp_column = warp % WARPS_ACROSS * WN;

    coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) {
        sums[i] = coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_a[2 * PIECES_OF_A], next_b[2 * PIECES_OF_B];

    uint begin = FIRST_SLAB, end = END_SLAB;
    FETCH(next_a, next_b, begin, end, first_row, first_column, lane)
    for (uint slab = begin; slab < end; ++slab) {
        barrier();
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
            uint at = i * LANES + lane, to = at / PIECES_IN_ROW_A * STRIDE_A + at % PIECES_IN_ROW_A;
            tiles[to] = next_a[2 * i];
            tiles[SLAB_A + to] = next_a[2 * i + 1];
        }
        [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {
            uint at = i * LANES + lane, to = HALVES_OF_B + at / PIECES_IN_ROW_B * STRIDE_B + at % PIECES_IN_ROW_B;
            tiles[to] = next_b[2 * i];
            tiles[SLAB_B + to] = next_b[2 * i + 1];
        }
        barrier();
        FETCH(next_a, next_b, slab + 1, end, first_row, first_column, lane)

        [[unroll]] for (uint i = 0; i < BK; i += TK) {
            coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> a[2 * ROWS];
            [[unroll]] for (uint r = 0; r < 2 * ROWS; ++r) {
                uint from = r % 2 * SLAB_A + (warp_row + r / 2 * TM) * STRIDE_A + i / PIECE;
                coopMatLoad(a[r], tiles, from, STRIDE_A, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> high, low;
                uint from = HALVES_OF_B + i * STRIDE_B + (warp_column + c * TN) / PIECE;
                coopMatLoad(high, tiles, from, STRIDE_B, gl_CooperativeMatrixLayoutRowMajor);
                coopMatLoad(low, tiles, SLAB_B + from, STRIDE_B, gl_CooperativeMatrixLayoutRowMajor);
                // The small products first, each for all rows before the next: a sum that waits for itself is slow.
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[2 * r + 1], high, sums[r * COLUMNS + c]);
                }
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[2 * r], low, sums[r * COLUMNS + c]);
                }
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[2 * r], high, sums[r * COLUMNS + c]);
                }
            }
        }

        // Matrix units may cut off what a sum cannot hold, so that long sums drift: those of a chunk are added to those of
        // the chunks before with rounding. These wait in memory, for registers have no room: of each component an
        // invocation knows only that it is its own, and neighbours write neighbouring ones. How many it has is the device's affair:
        // where not all have as many, the units sum up alone.
        bool last = slab + 1 == end, alike = sums[0].length() == COMPONENTS;
        if (alike && ((slab + 1 - begin) % CHUNK == 0 || last)) {
            bool first = slab - begin < CHUNK;
            uint block_row = gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x;  // of all parts
            uint own = (block_row * gl_NumWorkGroups.y + gl_WorkGroupID.y) * (BM * BN) + warp * (WM * WN) +
                       gl_SubgroupInvocationID;
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                // The loads of a column of matrices first: each store between them would wait for the load before.
                const uint COUNT = ROWS * COMPONENTS;
                uint from = own + c * COUNT * LANES_PER_WARP;
                if (!first) {
                    float before[COUNT];
                    [[unroll]] for (uint i = 0; i < COUNT; ++i) before[i] = SUMS.at[from + i * LANES_PER_WARP];
                    [[unroll]] for (uint i = 0; i < COUNT; ++i) {
                        sums[i / COMPONENTS * COLUMNS + c][i % COMPONENTS] += before[i];
                    }
                }
                if (!last) {
                    [[unroll]] for (uint i = 0; i < COUNT; ++i) {
                        SUMS.at[from + i * LANES_PER_WARP] = sums[i / COMPONENTS * COLUMNS + c][i % COMPONENTS];
                    }
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        sums[r * COLUMNS + c] =
                            coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
                    }
                }
            }
        }
    }

    float down_a = ldexp(1.0, exponent_of(LARGEST_A.bits) - 14), down_b = ldexp(1.0, exponent_of(LARGEST_B.bits) - 14);
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) sums[i] = sums[i] * down_a * down_b;

    STORE_WARP_TILE(sums, first_row + warp_row, first_column + warp_column, warp)
}
