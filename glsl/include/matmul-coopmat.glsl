// Products by cooperative matrices of sub-group scope, staged through shared memory.
#include "matmul-matrix.glsl"
#if defined(DTYPE_I8)
#define B_BY_COLUMNS
#endif
#include "matmul-warps.glsl"
#include "matmul-store.glsl"

layout(constant_id = 1) const uint A_ALIGNED = 0;  // rows of A start at multiples of 16 bytes
layout(constant_id = 2) const uint B_ALIGNED = 0;  // those of B; of bytes, at multiples of 4 bytes

const uint SLABS = SLAB_A + SLAB_B;
shared uvec4 tiles[SLABS > STAGED_C ? SLABS : STAGED_C];  // a slab of A, then one of B

// PIECE components of A from `from` on, the first of which is in column k; zero from column `end` on.
uvec4 piece_of_a(uint from, uint k, uint end) {
    if (A_ALIGNED != 0) return k < end ? Pieces(A).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (k + i < end) piece[i * BITS / 32] |= uint(A.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}

#if defined(B_BY_COLUMNS)
#include "matmul-b-columns.glsl"
#else
#include "matmul-b-rows.glsl"
#endif

// Columns of matrices that are multiplied while the next slab is stored; the others follow when it has been. The more
// there are, the later that slab can be read; measured on an H100.
#if defined(NARROW_SUM)
const uint MEANWHILE = COLUMNS / 2;
#elif defined(DTYPE_I8)
const uint MEANWHILE = 0;
#else
const uint MEANWHILE = 1;
#endif

// Macros that follow take arrays whose length is a specialization constant, which GLSL passes to no function.

// Reads this invocation's pieces and parcels of the slab from column, or row, `k` on into next_a and next_b, zero from `end`
// on. Those of K's first slab are at from_a in A and from_b in B; the block's first column of B is `first_column`, and the
// invocation is number `lane` of the work-group.
#define FETCH(next_a, next_b, k, end, from_a, from_b, first_column, lane)                                   \
    [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {                                                     \
        next_a[i] = piece_of_a(from_a[i] + (k), (k) + (i * LANES + lane) % PIECES_IN_ROW_A * PIECE, end);   \
    }                                                                                                       \
    [[unroll]] for (uint i = 0; i < PARCELS_OF_B; ++i) {                                                    \
        next_b[i] = parcel_of_b(i * LANES + lane, from_b[i] + (k) * N, k, end, first_column);               \
    }

// Loads the ROWS matrices of a slab from its column `k` on of a warp tile whose first row in the block is `warp_row`.
#define LOAD_A(matrices, warp_row, k)                                                                       \
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                            \
        coopMatLoad(matrices[r], tiles, (warp_row + r * TM) * STRIDE_A + (k) / PIECE, STRIDE_A,             \
                    gl_CooperativeMatrixLayoutRowMajor);                                                    \
    }

// Adds the products of ROWS matrices a by matrices b to the sums of columns `from` to `to` (exclusive) of matrices.
#define MULTIPLY(sums, a, b, from, to)                                                                      \
    [[unroll]] for (uint c = from; c < to; ++c) {                                                           \
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                        \
            sums[r * COLUMNS + c] = coopMatMulAdd(a[r], b[c], sums[r * COLUMNS + c]);                       \
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

    coopmat<SUM, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) {
        sums[i] = coopmat<SUM, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(SUM(0));
    }

    // Where this invocation's pieces and parcels of the first slab are.
    uint from_a[PIECES_OF_A], from_b[PARCELS_OF_B];
    [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
        uint at = i * LANES + lane;
        from_a[i] = min(first_row + at / PIECES_IN_ROW_A, M - 1) * K + at % PIECES_IN_ROW_A * PIECE;
    }
    [[unroll]] for (uint i = 0; i < PARCELS_OF_B; ++i) from_b[i] = start_of_b(i * LANES + lane, first_column);

    uvec4 next_a[PIECES_OF_A];
    PARCEL_OF_B next_b[PARCELS_OF_B];

    // The last matrices of a slab are multiplied when the next slab is on its way into shared memory, so that matrix
    // units have work while sub-groups wait for each other. Before the first slab they are zero.
    coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> last_a[ROWS];
    coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> last_b[COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) last_a[r] = coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA>(IN(0));
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        last_b[c] = coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB>(IN(0));
    }

    uint end = END_K;
    FETCH(next_a, next_b, FIRST_K, end, from_a, from_b, first_column, lane)
    for (uint k = FIRST_K; k < end; k += BK) {
        barrier();
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
            uint at = i * LANES + lane;
            tiles[at / PIECES_IN_ROW_A * STRIDE_A + at % PIECES_IN_ROW_A] = next_a[i];
        }
        [[unroll]] for (uint i = 0; i < PARCELS_OF_B; ++i) store_parcel_of_b(i * LANES + lane, next_b[i]);
        MULTIPLY(sums, last_a, last_b, 0, MEANWHILE)
        barrier();
        MULTIPLY(sums, last_a, last_b, MEANWHILE, COLUMNS)
        FETCH(next_a, next_b, k + BK, end, from_a, from_b, first_column, lane)

        [[unroll]] for (uint i = 0; i < BK - TK; i += TK) {
            // Not last_a and last_b: matrices that live both in this loop and across it took an H100's driver
            // (580.159.04) more than a minute to compile.
            coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> a[ROWS];
            LOAD_A(a, warp_row, i)
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> b;
                LOAD_B(b, warp_column, i, c)
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[r], b, sums[r * COLUMNS + c]);
                }
            }
        }
        LOAD_A(last_a, warp_row, BK - TK)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) LOAD_B(last_b[c], warp_column, BK - TK, c)
    }
    MULTIPLY(sums, last_a, last_b, 0, COLUMNS)
    STORE_WARP_TILE(sums, first_row + warp_row, first_column + warp_column, warp)
}
