// C = A·B of f32 on matrix units for f16: A and B come as halves (see split.glsl), and of the four products of halves
// three are summed up, in f32. The fourth, low by low, is 2^−22 of the whole.
//
// Staged as in `coopmat`. The halves are padded to whole blocks along K and N, so that every read is of 16 bytes.
// Source: H. Ootomo, R. Yokota, "Recovering single precision accuracy from tensor cores while surpassing the FP32
// theoretical peak performance", 2022 (arXiv 2203.03341).
#version 460
#pragma dtypes f32
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "split.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 16;
layout(constant_id = 6) const uint WM = 32;  // what a sub-group computes
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint TM = 16;  // the device's matrices: TM×TK times TK×TN
layout(constant_id = 9) const uint TN = 16;
layout(constant_id = 10) const uint TK = 16;
layout(constant_id = 12) const uint CHUNK = 64;  // slabs that the matrix units sum up alone
layout(constant_id = 11) const uint EDGE = 0;    // TM·TN; 0 where C consists of matrices with rows aligned to 16 bytes

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Halves { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Largest { uint bits; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Sums { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { float at[]; };
layout(push_constant, scalar) uniform Arguments {
    Halves A_HIGH, A_LOW;  // M×K, K padded to a multiple of BK
    Halves B_HIGH, B_LOW;  // K×N, N padded to a multiple of BN
    Largest LARGEST_A, LARGEST_B;
    Sums SUMS;  // M×N, both padded
    Result C;
    uint M, N;
    uint PIECES_OF_K, PIECES_OF_N;  // the padded extents in pieces of 8
};

const uint PIECE = 8;
const uint LANES = gl_WorkGroupSize.x;
const uint ROWS = WM / TM;
const uint COLUMNS = WN / TN;
const uint WARPS_ACROSS = BN / WN;
const uint WARPS = BM / WM * WARPS_ACROSS;
const uint ROW_A = BK / PIECE;
const uint ROW_B = BN / PIECE;
const uint STRIDE_A = ROW_A + 1;
const uint STRIDE_B = ROW_B + 1;
const uint SLAB_A = BM * STRIDE_A;
const uint SLAB_B = BK * STRIDE_B;
const uint PIECES_OF_A = BM * ROW_A / LANES;
const uint PIECES_OF_B = BK * ROW_B / LANES;

shared uvec4 tile_a[2 * SLAB_A];  // high, then low
shared uvec4 tile_b[2 * SLAB_B];
shared float edge[WARPS * EDGE + 1];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    uint first_column = gl_WorkGroupID.y * BN;
    if (first_row >= M) return;  // uniform in the group: the last strip may be narrower

    uint warp = gl_SubgroupID;
    uint y = warp / WARPS_ACROSS * WM;
    uint x = warp % WARPS_ACROSS * WN;

    coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) {
        sums[i] = coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_a[2 * PIECES_OF_A], next_b[2 * PIECES_OF_B];

    // Behind the last slab there is nothing to fetch: the last once more is one branch less.
#define FETCH(slab)                                                                                          \
    {                                                                                                        \
        uint k = min(slab, PIECES_OF_K / ROW_A - 1) * ROW_A;                                                 \
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {                                                  \
            uint at = i * LANES + lane;                                                                      \
            uint from = min(first_row + at / ROW_A, M - 1) * PIECES_OF_K + k + at % ROW_A;                   \
            next_a[2 * i] = A_HIGH.at[from];                                                                 \
            next_a[2 * i + 1] = A_LOW.at[from];                                                              \
        }                                                                                                    \
        [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {                                                  \
            uint at = i * LANES + lane;                                                                      \
            uint from = (k * PIECE + at / ROW_B) * PIECES_OF_N + first_column / PIECE + at % ROW_B;          \
            next_b[2 * i] = B_HIGH.at[from];                                                                 \
            next_b[2 * i + 1] = B_LOW.at[from];                                                              \
        }                                                                                                    \
    }

    FETCH(0)
    for (uint slab = 0; slab < PIECES_OF_K / ROW_A; ++slab) {
        barrier();
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
            uint at = i * LANES + lane, to = at / ROW_A * STRIDE_A + at % ROW_A;
            tile_a[to] = next_a[2 * i];
            tile_a[SLAB_A + to] = next_a[2 * i + 1];
        }
        [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {
            uint at = i * LANES + lane, to = at / ROW_B * STRIDE_B + at % ROW_B;
            tile_b[to] = next_b[2 * i];
            tile_b[SLAB_B + to] = next_b[2 * i + 1];
        }
        barrier();
        FETCH(slab + 1)

        [[unroll]] for (uint i = 0; i < BK; i += TK) {
            coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> a[2 * ROWS];
            [[unroll]] for (uint r = 0; r < 2 * ROWS; ++r) {
                uint from = r % 2 * SLAB_A + (y + r / 2 * TM) * STRIDE_A + i / PIECE;
                coopMatLoad(a[r], tile_a, from, STRIDE_A, gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> high, low;
                uint from = i * STRIDE_B + (x + c * TN) / PIECE;
                coopMatLoad(high, tile_b, from, STRIDE_B, gl_CooperativeMatrixLayoutRowMajor);
                coopMatLoad(low, tile_b, SLAB_B + from, STRIDE_B, gl_CooperativeMatrixLayoutRowMajor);
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
        // the chunks before with rounding. These wait in memory; registers have no room for them.
        bool last = slab + 1 == PIECES_OF_K / ROW_A;
        if ((slab + 1) % CHUNK == 0 || last) {
            bool first = slab < CHUNK;
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                    uint at = (first_row + y + r * TM) * (PIECES_OF_N * PIECE) + first_column + x + c * TN;
                    if (!first) {
                        coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> before;
                        coopMatLoad(before, SUMS.at, at, PIECES_OF_N * PIECE, gl_CooperativeMatrixLayoutRowMajor);
                        sums[r * COLUMNS + c] += before;
                    }
                    if (!last) {
                        coopMatStore(sums[r * COLUMNS + c], SUMS.at, at, PIECES_OF_N * PIECE,
                                     gl_CooperativeMatrixLayoutRowMajor);
                        sums[r * COLUMNS + c] =
                            coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
                    }
                }
            }
            subgroupMemoryBarrierBuffer();
        }
    }

    float down_a = ldexp(1.0, exponent_of(LARGEST_A.bits) - 14), down_b = ldexp(1.0, exponent_of(LARGEST_B.bits) - 14);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            uint row = first_row + y + r * TM, column = first_column + x + c * TN;
            sums[r * COLUMNS + c] = sums[r * COLUMNS + c] * down_a * down_b;
            if (EDGE == 0) {
                if (row < M && column < N) {
                    coopMatStore(sums[r * COLUMNS + c], C.at, row * N + column, N, gl_CooperativeMatrixLayoutRowMajor);
                }
                continue;
            }
            // Through shared memory, so that nothing outside of C is written.
            uint own = warp * EDGE;
            subgroupBarrier();
            coopMatStore(sums[r * COLUMNS + c], edge, own, TN, gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            for (uint i = gl_SubgroupInvocationID; i < EDGE; i += gl_SubgroupSize) {
                if (row + i / TN < M && column + i % TN < N) {
                    C.at[(row + i / TN) * N + column + i % TN] = edge[own + i];
                }
            }
        }
    }
}
