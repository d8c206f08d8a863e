// A slab of B in shared memory by rows, as it is in global memory. What matmul-coopmat.glsl moves at a time, a part, is a
// piece.
#define PART_OF_B uvec4
const uint PARTS_OF_B = PIECES_OF_B;

// Where part `at` of the first slab is.
uint start_of_b(uint at, uint first_column) {
    uint column = first_column + at % ROW_B * PIECE;
    return at / ROW_B * N + (B_ALIGNED != 0 ? min(column, N - PIECE) : column);
}

// Part `at` of the slab from row k on, which is at `from`; zero beyond K. Sums of what is beyond N are not stored.
PART_OF_B part_of_b(uint at, uint from, uint k, uint first_column) {
    uint row = k + at / ROW_B, column = first_column + at % ROW_B * PIECE;
    if (B_ALIGNED != 0) return row < K ? Pieces(B).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (row < K && column + i < N) piece[i * BITS / 32] |= uint(B.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}

void store_part_of_b(uint at, PART_OF_B part) {
    tiles[SLAB_A + at / ROW_B * STRIDE_B + at % ROW_B] = part;
}

// A matrix from row i and column c·TN of this sub-group's part of the slab on.
#define LOAD_B(b, i, c)                                                                                     \
    coopMatLoad(b, tiles, SLAB_A + (i) * STRIDE_B + (x + (c) * TN) / PIECE, STRIDE_B,                       \
                gl_CooperativeMatrixLayoutRowMajor);
