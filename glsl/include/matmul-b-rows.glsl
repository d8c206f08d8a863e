// A slab of B in shared memory by rows, as it is in global memory. What matmul-coopmat.glsl moves at a time, a parcel,
// is a piece.
#define PARCEL_OF_B uvec4
const uint PARCELS_OF_B = PIECES_OF_B;

// Where parcel `at` of the first slab is.
uint start_of_b(uint at, uint first_column) {
    uint column = first_column + at % PIECES_IN_ROW_B * PIECE;
    return at / PIECES_IN_ROW_B * N + (B_ALIGNED != 0 ? min(column, N - PIECE) : column);
}

// Parcel `at` of the slab from row k on, which is at `from`; zero from row `end` on. Sums of what is beyond N are not stored.
PARCEL_OF_B parcel_of_b(uint at, uint from, uint k, uint end, uint first_column) {
    uint row = k + at / PIECES_IN_ROW_B, column = first_column + at % PIECES_IN_ROW_B * PIECE;
    if (B_ALIGNED != 0) return row < end ? Pieces(B).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (row < end && column + i < N) piece[i * BITS / 32] |= uint(B.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}

void store_parcel_of_b(uint at, PARCEL_OF_B parcel) {
    tiles[SLAB_A + at / PIECES_IN_ROW_B * STRIDE_B + at % PIECES_IN_ROW_B] = parcel;
}

// The matrix of a slab from its row `k` on that is number `c` of a warp tile whose first column in the block is
// `warp_column`.
#define LOAD_B(matrix, warp_column, k, c)                                                                   \
    coopMatLoad(matrix, tiles, SLAB_A + (k) * STRIDE_B + (warp_column + (c) * TN) / PIECE, STRIDE_B,        \
                gl_CooperativeMatrixLayoutRowMajor);
