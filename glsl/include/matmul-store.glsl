    // The end of a kernel's main(): stores `sums`, the part of C from (first_row + y, first_column + x) on that sub-group
    // `warp` has. A matrix stored to C directly would be written in bits of a few bytes a row, and at C's edges beyond it.
    // So each sub-group puts a row of its matrices into shared memory, and writes it as pieces of 16 bytes.
    barrier();  // nobody reads a slab any more
    uint own = warp * TM * STRIDE_C;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            round_to_out(sums[r * COLUMNS + c]);
            coopMatStore(coopmat<OUT, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(sums[r * COLUMNS + c]), tiles,
                         own + c * TN / OUT_PIECE, STRIDE_C, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        [[unroll]] for (uint i = 0; i < TM * ROW_C; i += WARP) {
            uint at = i + gl_SubgroupInvocationID;
            uint row = first_row + y + r * TM + at / ROW_C, column = first_column + x + at % ROW_C * OUT_PIECE;
            if (at >= TM * ROW_C || row >= M || column >= N) continue;
            uvec4 piece = tiles[own + at / ROW_C * STRIDE_C + at % ROW_C];
            if (C_ALIGNED != 0) {
                ResultPieces(C).at[(row * N + column) / OUT_PIECE] = piece;
                continue;
            }
            [[unroll]] for (uint j = 0; j < OUT_PIECE; ++j) {
                uint bits = piece[j * OUT_BITS / 32] >> j * OUT_BITS % 32;
                if (column + j < N) ResultBits(C).at[row * N + column + j] = OUT_RAW(bits);
            }
        }
        subgroupBarrier();
    }
