// What matmul-coopmat.glsl moves at a time, where no component changes its place: a piece of 16 bytes.

// PIECE components of a row along K from `from` on, the first of which is in column k; zero beyond K.
uvec4 piece_along(Operand x, uint from, uint k, bool aligned) {
    if (aligned) return k < K ? Pieces(x).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (k + i < K) piece[i * BITS / 32] |= uint(x.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}

// PIECE components of row k, of `columns` across K, from `from` on, the first of which is in `column`; zero beyond K.
// Sums of what is beyond the columns are not stored.
uvec4 piece_across(Operand x, uint from, uint k, uint column, uint columns, bool aligned) {
    if (aligned) return k < K ? Pieces(x).at[from / PIECE] : uvec4(0);
    uvec4 piece = uvec4(0);
    [[unroll]] for (uint i = 0; i < PIECE; ++i) {
        if (k < K && column + i < columns) piece[i * BITS / 32] |= uint(x.at[from + i]) << (i * BITS % 32);
    }
    return piece;
}
