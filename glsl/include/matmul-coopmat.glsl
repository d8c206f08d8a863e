// Products by cooperative matrices of sub-group scope, staged through shared memory.
#extension GL_KHR_shader_subgroup_basic : require
#include "matmul-matrix.glsl"

layout(constant_id = 1) const uint A_ALIGNED = 0;  // rows of A start at multiples of 16 bytes
layout(constant_id = 2) const uint B_ALIGNED = 0;  // those of B
layout(constant_id = 6) const uint WM = 32;        // what a sub-group computes
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint TM = 16;  // the device's matrices: TM×TK times TK×TN
layout(constant_id = 9) const uint TN = 16;
layout(constant_id = 10) const uint TK = 16;
layout(constant_id = 11) const uint EDGE = 0;  // TM·TN; 0 where C consists of matrices with rows aligned to 16 bytes

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pieces { uvec4 at[]; };

const uint LANES = gl_WorkGroupSize.x;
const uint ROWS = WM / TM;
const uint COLUMNS = WN / TN;
const uint WARPS_ACROSS = BN / WN;
const uint WARPS = BM / WM * WARPS_ACROSS;

// Pieces of 16 bytes: those of a row of a slab, those from one row to the next in shared memory (one more, so that the
// same columns of 8 neighbouring rows lie in different banks), and those that an invocation moves.
const uint ROW_A = BK / PIECE;
const uint ROW_B = BN / PIECE;
const uint STRIDE_A = ROW_A + 1;
const uint STRIDE_B = ROW_B + 1;
const uint SLAB_A = BM * STRIDE_A;
const uint SLAB_B = BK * STRIDE_B;
const uint PIECES_OF_A = BM * ROW_A / LANES;
const uint PIECES_OF_B = BK * ROW_B / LANES;

shared uvec4 tile_a[SLAB_A];
shared uvec4 tile_b[SLAB_B];
shared OUT edge[WARPS * EDGE + 1];

// PIECE components of A from `from` on, the first of which is in column k; zero beyond K.
uvec4 piece_of_a(uint from, uint k) {
    if (A_ALIGNED != 0) return k < K ? Pieces(A).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (k + i < K) piece[i * BITS / 32] |= uint(A.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}

// PIECE components of row k of B from `from` on, the first of which is in column `column`; zero beyond K and N.
uvec4 piece_of_b(uint from, uint k, uint column) {
    if (B_ALIGNED != 0) return k < K ? Pieces(B).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (k < K && column + i < N) piece[i * BITS / 32] |= uint(B.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    uint first_column = gl_WorkGroupID.y * BN;
    if (first_row >= M) return;  // uniform in the group: the last strip may be narrower

    uint warp = gl_SubgroupID;
    uint y = warp / WARPS_ACROSS * WM;
    uint x = warp % WARPS_ACROSS * WN;

    coopmat<SUM, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) {
        sums[i] = coopmat<SUM, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(SUM(0));
    }

    // Where this invocation's pieces of the first slab are.
    uint from_a[PIECES_OF_A], from_b[PIECES_OF_B];
    [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
        uint at = i * LANES + lane;
        from_a[i] = min(first_row + at / ROW_A, M - 1) * K + at % ROW_A * PIECE;
    }
    [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {
        uint at = i * LANES + lane, column = first_column + at % ROW_B * PIECE;
        from_b[i] = at / ROW_B * N + (B_ALIGNED != 0 ? min(column, N - PIECE) : column);
    }

    uvec4 next_a[PIECES_OF_A], next_b[PIECES_OF_B];
#define FETCH(k)                                                                                            \
    [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {                                                     \
        next_a[i] = piece_of_a(from_a[i] + (k), (k) + (i * LANES + lane) % ROW_A * PIECE);                  \
    }                                                                                                       \
    [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {                                                     \
        uint at = i * LANES + lane;                                                                         \
        next_b[i] = piece_of_b(from_b[i] + (k) * N, (k) + at / ROW_B, first_column + at % ROW_B * PIECE);   \
    }

    FETCH(0)
    for (uint k = 0; k < K; k += BK) {
        barrier();
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
            uint at = i * LANES + lane;
            tile_a[at / ROW_A * STRIDE_A + at % ROW_A] = next_a[i];
        }
        [[unroll]] for (uint i = 0; i < PIECES_OF_B; ++i) {
            uint at = i * LANES + lane;
            tile_b[at / ROW_B * STRIDE_B + at % ROW_B] = next_b[i];
        }
        barrier();
        FETCH(k + BK)

        [[unroll]] for (uint i = 0; i < BK; i += TK) {
            coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> a[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                coopMatLoad(a[r], tile_a, (y + r * TM) * STRIDE_A + i / PIECE, STRIDE_A,
                            gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> b;
                coopMatLoad(b, tile_b, i * STRIDE_B + (x + c * TN) / PIECE, STRIDE_B,
                            gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[r], b, sums[r * COLUMNS + c]);
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            uint row = first_row + y + r * TM, column = first_column + x + c * TN;
            round_to_out(sums[r * COLUMNS + c]);
            coopmat<OUT, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> block =
                coopmat<OUT, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(sums[r * COLUMNS + c]);
            if (EDGE == 0) {
                if (row < M && column < N) {
                    coopMatStore(block, C.at, row * N + column, N, gl_CooperativeMatrixLayoutRowMajor);
                }
                continue;
            }
            // Through shared memory, so that nothing outside of C is written.
            uint own = warp * EDGE;
            subgroupBarrier();
            coopMatStore(block, edge, own, TN, gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            for (uint i = gl_SubgroupInvocationID; i < EDGE; i += gl_SubgroupSize) {
                if (row + i / TN < M && column + i % TN < N) {
                    C.at[(row + i / TN) * N + column + i % TN] = edge[own + i];
                }
            }
        }
    }
}
