// Products by cooperative matrices of sub-group scope, staged through shared memory.
#include "matmul-matrix.glsl"
#if defined(DTYPE_I8)
#define B_BY_COLUMNS
#endif
#include "matmul-warps.glsl"

layout(constant_id = 1) const uint A_ALIGNED = 0;  // rows of A start at multiples of 16 bytes
layout(constant_id = 2) const uint B_ALIGNED = 0;  // those of B; of bytes, at multiples of 4 bytes

const uint SLABS = SLAB_A + SLAB_B;
shared uvec4 tiles[SLABS > STAGED ? SLABS : STAGED];  // a slab of A, then one of B

// PIECE components of A from `from` on, the first of which is in column k; zero beyond K.
uvec4 piece_of_a(uint from, uint k) {
    if (A_ALIGNED != 0) return k < K ? Pieces(A).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (k + i < K) piece[i * BITS / 32] |= uint(A.at[from + i]) << (i * BITS % 32);
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

    // Where this invocation's parts of the first slab are.
    uint from_a[PIECES_OF_A], from_b[PARTS_OF_B];
    [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
        uint at = i * LANES + lane;
        from_a[i] = min(first_row + at / ROW_A, M - 1) * K + at % ROW_A * PIECE;
    }
    [[unroll]] for (uint i = 0; i < PARTS_OF_B; ++i) from_b[i] = start_of_b(i * LANES + lane, first_column);

    uvec4 next_a[PIECES_OF_A];
    PART_OF_B next_b[PARTS_OF_B];
#define FETCH(k)                                                                                            \
    [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {                                                     \
        next_a[i] = piece_of_a(from_a[i] + (k), (k) + (i * LANES + lane) % ROW_A * PIECE);                  \
    }                                                                                                       \
    [[unroll]] for (uint i = 0; i < PARTS_OF_B; ++i) {                                                      \
        next_b[i] = part_of_b(i * LANES + lane, from_b[i] + (k) * N, k, first_column);                      \
    }

    // The last matrices of a slab are multiplied when the next slab is on its way into shared memory, so that matrix units
    // have work while sub-groups wait for each other. Before the first slab they are zero.
    coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> last_a[ROWS];
    coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> last_b[COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) last_a[r] = coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA>(IN(0));
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        last_b[c] = coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB>(IN(0));
    }
#define MULTIPLY_LAST(from, to)                                                                             \
    [[unroll]] for (uint c = from; c < to; ++c) {                                                           \
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                        \
            sums[r * COLUMNS + c] = coopMatMulAdd(last_a[r], last_b[c], sums[r * COLUMNS + c]);             \
        }                                                                                                   \
    }
// Matrices of the slab, from its column, or row, i on.
#define LOAD_A(a, i)                                                                                        \
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                            \
        coopMatLoad(a[r], tiles, (y + r * TM) * STRIDE_A + (i) / PIECE, STRIDE_A,                           \
                    gl_CooperativeMatrixLayoutRowMajor);                                                    \
    }

    FETCH(0)
    for (uint k = 0; k < K; k += BK) {
        barrier();
        [[unroll]] for (uint i = 0; i < PIECES_OF_A; ++i) {
            uint at = i * LANES + lane;
            tiles[at / ROW_A * STRIDE_A + at % ROW_A] = next_a[i];
        }
        [[unroll]] for (uint i = 0; i < PARTS_OF_B; ++i) store_part_of_b(i * LANES + lane, next_b[i]);
        MULTIPLY_LAST(0, MEANWHILE)
        barrier();
        MULTIPLY_LAST(MEANWHILE, COLUMNS)
        FETCH(k + BK)

        [[unroll]] for (uint i = 0; i < BK - TK; i += TK) {
            // Not last_a and last_b: matrices that live both in this loop and across it took an H100's driver (580.159.04)
            // more than a minute to compile.
            coopmat<IN, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> a[ROWS];
            LOAD_A(a, i)
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                coopmat<IN, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> b;
                LOAD_B(b, i, c)
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[r], b, sums[r * COLUMNS + c]);
                }
            }
        }
        LOAD_A(last_a, BK - TK)
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) LOAD_B(last_b[c], BK - TK, c)
    }
    MULTIPLY_LAST(0, COLUMNS)

#include "matmul-store.glsl"
}
