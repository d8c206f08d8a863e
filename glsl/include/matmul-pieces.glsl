// Copies of 16-byte pieces, the unit in which coopmat.comp moves operands that need no transposition.
//
// Rows start at multiples of STEP components (of A_STEP or B_STEP), a power of two: pieces are loaded as wide as that
// allows, down to words of 4 bytes, between which components are shifted where rows start anywhere. The last words may
// reach up to 20 bytes behind the operand.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Pairs { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Words { uint at[]; };

// PIECE components from `from` on.
uvec4 piece_at(Operand x, uint from, uint step) {
    const uint IN_WORD = 32 / BITS;
    if (step == PIECE) return Pieces(x).at[from / PIECE];
    if (step == PIECE / 2) {
        uint pair = from / (PIECE / 2);
        return uvec4(Pairs(x).at[pair], Pairs(x).at[pair + 1]);
    }
    uint word = from / IN_WORD;
    uvec4 words = uvec4(Words(x).at[word], Words(x).at[word + 1], Words(x).at[word + 2], Words(x).at[word + 3]);
    if (step >= IN_WORD) return words;
    uint shift = from % IN_WORD * BITS, last = Words(x).at[word + 4];
    return shift == 0 ? words : words >> shift | uvec4(words.yzw, last) << (32 - shift);
}

// The components of a piece that are before the `count`th.
uvec4 only(uvec4 piece, uint count) {
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        int bits = clamp((int(count) * BITS - int(i) * 32), 0, 32);
        piece[i] &= bits == 32 ? 0xffffffffu : (1u << bits) - 1;
    }
    return piece;
}

// PIECE components of a row along K from `from` on, the first of which is in column k; zero beyond K.
uvec4 piece_along(Operand x, uint from, uint k, uint step) {
    if (k >= K) return uvec4(0);
    uvec4 piece = piece_at(x, from, step);
    return step == PIECE || k + PIECE <= K ? piece : only(piece, K - k);
}

// PIECE components of row k, of `columns` across K, from `from` on, the first of which is in `column`; zero beyond K.
// Sums of what is beyond the columns are not stored.
uvec4 piece_across(Operand x, uint from, uint k, uint column, uint columns, uint step) {
    return k < K && (step == PIECE || column < columns) ? piece_at(x, from, step) : uvec4(0);
}
