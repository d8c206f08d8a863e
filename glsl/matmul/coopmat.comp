// Products by cooperative matrices of sub-group scope, staged through shared memory.
// With IN_PARTS over parts of K, whose sums are added up later: see matmul-parts.glsl.
#version 460
#pragma dtypes f16 bf16 i8
#pragma layouts nn nt tn
#pragma kernel coopmat
#pragma kernel coopmat-parts IN_PARTS
#pragma kernel coopmat-narrow NARROW_SUM f16
#pragma kernel coopmat-narrow-parts NARROW_SUM IN_PARTS f16
#include "matmul-matrix.glsl"
// How the operands are moved, by how their rows are stored: in pieces, along K (A, and B of layout nt) or across it; in
// parcels, which are transposed on their way, where bytes lie across it.
#if defined(LAYOUT_NT) || defined(DTYPE_I8)
#define B_BY_COLUMNS
#endif
#if defined(LAYOUT_TN) && !defined(DTYPE_I8)
#define A_BY_COLUMNS
#endif
#include "matmul-warps.glsl"
#include "matmul-store.glsl"

// Rows of A, and of B, start at multiples of so many components, a power of two.
layout(constant_id = 1) const uint A_STEP = 1;
layout(constant_id = 2) const uint B_STEP = 1;

const uint SLABS = SLAB_A + SLAB_B;
shared uvec4 tiles[SLABS > STAGED_C ? SLABS : STAGED_C];  // a slab of A, then one of B

#include "matmul-pieces.glsl"
#if defined(DTYPE_I8)
#include "matmul-parcels.glsl"
#endif

// Macros that follow take arrays whose length is a specialization constant, which GLSL passes to no function. They are
// of an operand x, of `extent` rows along K or columns across it, of which the block's begin with `first`; and of
// invocation number `lane` of the work-group.
//
// START finds where this invocation's pieces of the first slab are, FETCH reads those of the slab from column, or row,
// `k` on into next, and KEEP writes them to shared memory from `base` on.
#define START_ALONG(from, count, x, extent, first, in_row, edge, step, lane)                             \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        from[i] = min(first + at / in_row, extent - 1) * K + at % in_row * PIECE;                           \
    }
#define FETCH_ALONG(next, count, x, from, k, extent, first, in_row, edge, step, lane)                    \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        next[i] = piece_along(x, from[i] + (k), (k) + (i * LANES + lane) % in_row * PIECE, step);           \
    }
#define START_ACROSS(from, count, x, extent, first, in_row, edge, step, lane)                            \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane, column = first + at % in_row * PIECE;                                   \
        from[i] = at / in_row * extent + (step == PIECE ? min(column, extent - PIECE) : column);                  \
    }
#define FETCH_ACROSS(next, count, x, from, k, extent, first, in_row, edge, step, lane)                   \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        next[i] = piece_across(x, from[i] + (k) * extent, (k) + at / in_row, first + at % in_row * PIECE, extent,\
                               step);                                                                    \
    }
#define KEEP_PIECES(base, stride, next, count, in_row, edge, lane)                                          \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        tiles[base + at / in_row * stride + at % in_row] = next[i];                                         \
    }

#if !defined(LAYOUT_TN)
#define MOVED_A uvec4
#define MOVES_OF_A PIECES_OF_A
#define START_A START_ALONG
#define FETCH_A FETCH_ALONG
#define KEEP_A KEEP_PIECES
#elif !defined(DTYPE_I8)
#define MOVED_A uvec4
#define MOVES_OF_A PIECES_OF_A
#define START_A START_ACROSS
#define FETCH_A FETCH_ACROSS
#define KEEP_A KEEP_PIECES
#else
#define MOVED_A Parcel
#define MOVES_OF_A PARCELS_OF(BM)
#define START_A START_PARCELS
#define FETCH_A FETCH_PARCELS
#define KEEP_A KEEP_PARCELS
#endif
#if defined(LAYOUT_NT)
#define MOVED_B uvec4
#define MOVES_OF_B PIECES_OF_B
#define START_B START_ALONG
#define FETCH_B FETCH_ALONG
#define KEEP_B KEEP_PIECES
#elif !defined(DTYPE_I8)
#define MOVED_B uvec4
#define MOVES_OF_B PIECES_OF_B
#define START_B START_ACROSS
#define FETCH_B FETCH_ACROSS
#define KEEP_B KEEP_PIECES
#else
#define MOVED_B Parcel
#define MOVES_OF_B PARCELS_OF(BN)
#define START_B START_PARCELS
#define FETCH_B FETCH_PARCELS
#define KEEP_B KEEP_PARCELS
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

// Reads this invocation's part of both operands' slabs from k on into next_a and next_b. Those of the first slabs are at
// from_a in A and from_b in B.
#define FETCH(next_a, next_b, k, from_a, from_b, first_row, first_column, lane)                             \
    FETCH_A(next_a, MOVES_OF_A, A, from_a, k, M, first_row, PIECES_IN_ROW_A, BM, A_STEP, lane)      \
    FETCH_B(next_b, MOVES_OF_B, B, from_b, k, N, first_column, PIECES_IN_ROW_B, BN, B_STEP, lane)

// Loads the ROWS matrices of a slab from its column `k` on of a warp tile whose first row in the block is `warp_row`.
#if defined(A_BY_COLUMNS)
#define LOAD_A(matrices, warp_row, k)                                                                       \
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                            \
        coopMatLoad(matrices[r], tiles, (k) * STRIDE_A + (warp_row + r * TM) / PIECE, STRIDE_A,             \
                    gl_CooperativeMatrixLayoutColumnMajor);                                                 \
    }
#else
#define LOAD_A(matrices, warp_row, k)                                                                       \
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                            \
        coopMatLoad(matrices[r], tiles, (warp_row + r * TM) * STRIDE_A + (k) / PIECE, STRIDE_A,             \
                    gl_CooperativeMatrixLayoutRowMajor);                                                    \
    }
#endif

// Loads the matrix of a slab from its row `k` on that is number `c` of a warp tile whose first column in the block is
// `warp_column`.
#if defined(B_BY_COLUMNS)
#define LOAD_B(matrix, warp_column, k, c)                                                                   \
    coopMatLoad(matrix, tiles, SLAB_A + (warp_column + (c) * TN) * STRIDE_B + (k) / PIECE, STRIDE_B,        \
                gl_CooperativeMatrixLayoutColumnMajor);
#else
#define LOAD_B(matrix, warp_column, k, c)                                                                   \
    coopMatLoad(matrix, tiles, SLAB_A + (k) * STRIDE_B + (warp_column + (c) * TN) / PIECE, STRIDE_B,        \
                gl_CooperativeMatrixLayoutRowMajor);
#endif

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

    uint from_a[MOVES_OF_A], from_b[MOVES_OF_B];
    START_A(from_a, MOVES_OF_A, A, M, first_row, PIECES_IN_ROW_A, BM, A_STEP, lane)
    START_B(from_b, MOVES_OF_B, B, N, first_column, PIECES_IN_ROW_B, BN, B_STEP, lane)
    MOVED_A next_a[MOVES_OF_A];
    MOVED_B next_b[MOVES_OF_B];

    // The last matrices of a slab are multiplied when the next slab is on its way into shared memory, so that matrix
    // units have work while sub-groups wait for each other. Before the first slab they are zero.
    coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> last_a[ROWS];
    coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> last_b[COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) last_a[r] = coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA>(IN(0));
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        last_b[c] = coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB>(IN(0));
    }

    uint end = END_K;
    FETCH(next_a, next_b, FIRST_K, from_a, from_b, first_row, first_column, lane)
    for (uint k = FIRST_K; k < end; k += BK) {
        barrier();
        KEEP_A(0, STRIDE_A, next_a, MOVES_OF_A, PIECES_IN_ROW_A, BM, lane)
        KEEP_B(SLAB_A, STRIDE_B, next_b, MOVES_OF_B, PIECES_IN_ROW_B, BN, lane)
        MULTIPLY(sums, last_a, last_b, 0, MEANWHILE)
        barrier();
        MULTIPLY(sums, last_a, last_b, MEANWHILE, COLUMNS)
        FETCH(next_a, next_b, NEXT_K(k + BK, end), from_a, from_b, first_row, first_column, lane)

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
