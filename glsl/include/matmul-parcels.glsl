// Bytes of an operand whose rows lie across K, in shared memory along it: matrix units want four neighbours along K in one
// register, and GPUs that load matrices transposed do so with 16 bits at least. What coopmat.comp moves at a time,
// a parcel, is four columns of 16 rows, transposed on their way. Parcels of the same columns are neighbours, so that with
// BK = 64 eight invocations write to all banks.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Quads { uint at[]; };

struct Parcel {
    uint rows[PIECE];  // four columns each
};
const uint PARCELS_DOWN = BK / PIECE;  // parcels of the same columns
// Parcels of a slab of `edge` columns, and those of an invocation, of which some of the last may be beyond the slab.
#define PARCELS_IN(edge) (PARCELS_DOWN * edge / 4)
#define PARCELS_OF(edge) ((PARCELS_IN(edge) + LANES - 1) / LANES)

// Rows that start at multiples of 16 bytes along K have whole pieces, and so have the columns that they are multiplied by.
#if defined(LAYOUT_TN)
const bool WHOLE = false;
#else
const bool WHOLE = A_STEP == PIECE;
#endif

// The parcel from row `first` and `column` of `columns` on, which is at `from`; zero beyond K, or where it is not inside
// the slab. Sums of what is beyond the columns are not stored.
Parcel parcel_across(Operand x, uint from, uint first, uint column, uint columns, bool inside_slab, bool aligned) {
    Parcel parcel;
    [[unroll]] for (uint row = 0; row < PIECE; ++row, from += columns) {
        bool inside = first + (WHOLE ? 0 : row) < K && inside_slab;
        parcel.rows[row] = 0;
        if (aligned) {
            if (inside) parcel.rows[row] = Quads(x).at[from / 4];
            continue;
        }
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            if (inside && column + i < columns) parcel.rows[row] |= uint(x.at[from + i]) << i * 8;
        }
    }
    return parcel;
}

// Four neighbouring rows of four columns as four columns.
uvec4 transposed(uint a, uint b, uint c, uint d) {
    uvec4 rows = uvec4(a, b, c, d);
    uvec2 even = (rows.xz & 0x00ff00ffu) | (rows.yw & 0x00ff00ffu) << 8;  // of columns 0 and 2
    uvec2 odd = (rows.xz >> 8 & 0x00ff00ffu) | (rows.yw & 0xff00ff00u);   // of columns 1 and 3
    return uvec4((even.x & 0xffffu) | even.y << 16, (odd.x & 0xffffu) | odd.y << 16,
                 even.x >> 16 | (even.y & 0xffff0000u), odd.x >> 16 | (odd.y & 0xffff0000u));
}

// Writes a parcel to shared memory: four columns, `stride` pieces apart, from `to` on.
void keep_parcel(uint to, uint stride, Parcel parcel) {
    uvec4 columns[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        columns[i] =
            transposed(parcel.rows[4 * i], parcel.rows[4 * i + 1], parcel.rows[4 * i + 2], parcel.rows[4 * i + 3]);
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        tiles[to + j * stride] = uvec4(columns[0][j], columns[1][j], columns[2][j], columns[3][j]);
    }
}

// As those of pieces: see coopmat.comp.
#define START_PARCELS(from, count, x, extent, first, in_row, edge, step, lane)                           \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane, column = first + at / PARCELS_DOWN * 4;                                 \
        from[i] = at % PARCELS_DOWN * PIECE * extent + (step >= 4 ? min(column, extent - 4) : column);        \
    }
#define FETCH_PARCELS(next, count, x, from, k, extent, first, in_row, edge, step, lane)                  \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        bool inside = PARCELS_IN(edge) % LANES == 0 || at < PARCELS_IN(edge);                               \
        next[i] = parcel_across(x, from[i] + (k) * extent, (k) + at % PARCELS_DOWN * PIECE,                 \
                                first + at / PARCELS_DOWN * 4, extent, inside, step >= 4);                    \
    }
#define KEEP_PARCELS(base, stride, next, count, in_row, edge, lane)                                         \
    [[unroll]] for (uint i = 0; i < count; ++i) {                                                           \
        uint at = i * LANES + lane, to = base + at / PARCELS_DOWN * 4 * stride + at % PARCELS_DOWN;         \
        if (PARCELS_IN(edge) % LANES == 0 || at < PARCELS_IN(edge)) keep_parcel(to, stride, next[i]);       \
    }
