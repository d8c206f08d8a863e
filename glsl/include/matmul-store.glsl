// How a sub-group's matrices of sums leave for C. A matrix stored to C directly would be written in bits of a few bytes
// a row, and at C's edges beyond it. So each sub-group puts a row of its matrices into shared memory, and writes it as
// pieces of 16 bytes.
//
// A macro, for GLSL passes no arrays whose length is a specialization constant. It stands at the end of main(), where
// all invocations of the work-group come by, and takes
//
//   sums                   ROWS·COLUMNS accumulators of TM×TN, row by row: the warp tile; rounded to what OUT can hold
//   first_row, first_column  where in C the warp tile begins; what lies beyond M and N is not stored
//   warp                   the number of the sub-group in its work-group, which says where in `tiles` it may write
//
// The including kernel has `tiles` in shared memory, at least STAGED_C pieces, in which sub-group `warp` has TM rows of
// STRIDE_C pieces from warp·TM·STRIDE_C on; and M, N, C, FIRST_OF_C, and what matmul-warps.glsl names. It overwrites `tiles`.
#define STORE_WARP_TILE(sums, first_row, first_column, warp)                                                \
    {                                                                                                       \
        barrier();                                                                                          \
        uint staging = warp * TM * STRIDE_C;                                                                \
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                        \
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {                                                 \
                round_to_out(sums[r * COLUMNS + c]);                                                        \
                coopMatStore(                                                                               \
                    coopmat<OUT, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(sums[r * COLUMNS + c]), tiles,\
                    staging + c * TN / OUT_PIECE, STRIDE_C, gl_CooperativeMatrixLayoutRowMajor);            \
            }                                                                                               \
            subgroupBarrier();                                                                              \
            [[unroll]] for (uint i = 0; i < TM * PIECES_IN_ROW_C; i += LANES_PER_WARP) {                    \
                uint at = i + gl_SubgroupInvocationID;                                                      \
                uint row = (first_row) + r * TM + at / PIECES_IN_ROW_C;                                     \
                uint column = (first_column) + at % PIECES_IN_ROW_C * OUT_PIECE;                            \
                if (at >= TM * PIECES_IN_ROW_C || row >= M || column >= N) continue;                        \
                uvec4 piece = tiles[staging + at / PIECES_IN_ROW_C * STRIDE_C + at % PIECES_IN_ROW_C];      \
                uint to = FIRST_OF_C + row * N + column;                                                    \
                if (C_STEP >= OUT_PIECE) {                                                                  \
                    ResultPieces(C).at[to / OUT_PIECE] = piece;                                             \
                    continue;                                                                               \
                }                                                                                           \
                if (C_STEP >= OUT_PIECE / 2) {                                                              \
                    uint pair = to / (OUT_PIECE / 2);                                                       \
                    ResultPairs(C).at[pair] = piece.xy;                                                     \
                    if (column + OUT_PIECE / 2 < N) ResultPairs(C).at[pair + 1] = piece.zw;                 \
                    continue;                                                                               \
                }                                                                                           \
                [[unroll]] for (uint j = 0; j < OUT_PIECE; ++j) {                                           \
                    uint bits = piece[j * OUT_BITS / 32] >> j * OUT_BITS % 32;                              \
                    if (column + j < N) ResultBits(C).at[to + j] = OUT_RAW(bits);                              \
                }                                                                                           \
            }                                                                                               \
            subgroupBarrier();                                                                              \
        }                                                                                                   \
    }
