// A slab of bytes of B in shared memory by columns: matrix units want four neighbours of a column in one register, and
// GPUs that load matrices transposed do so with 16 bits at least. What matmul-coopmat.glsl moves at a time, a parcel,
// is four columns of 16 rows, transposed on their way. Parcels of the same columns are neighbours, so that with BK = 64
// eight invocations write to all banks.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Quads { uint at[]; };

struct Parcel {
    uint rows[PIECE];  // four columns each
};
#define PARCEL_OF_B Parcel
const uint PARCELS_DOWN = BK / PIECE;              // parcels of the same columns
const uint PARCELS = PARCELS_DOWN * BN / 4;          // of a slab
const uint PARCELS_OF_B = (PARCELS + LANES - 1) / LANES;  // of an invocation; some of the last may be beyond the slab

// Where parcel `at` of the first slab is.
uint start_of_b(uint at, uint first_column) {
    uint column = first_column + at / PARCELS_DOWN * 4;
    return at % PARCELS_DOWN * PIECE * N + (B_ALIGNED != 0 ? min(column, N - 4) : column);
}

// Parcel `at` of the slab from row k on, which is at `from`; zero from row `end` on. Sums of what is beyond N are not stored.
PARCEL_OF_B parcel_of_b(uint at, uint from, uint k, uint end, uint first_column) {
    uint first = k + at % PARCELS_DOWN * PIECE, column = first_column + at / PARCELS_DOWN * 4;
    Parcel parcel;
    [[unroll]] for (uint row = 0; row < PIECE; ++row, from += N) {
        // Rows of A that start at multiples of 16 bytes have whole pieces, and so have columns of B.
        bool inside = first + (A_ALIGNED != 0 ? 0 : row) < end && (PARCELS % LANES == 0 || at < PARCELS);
        parcel.rows[row] = 0;
        if (B_ALIGNED != 0) {
            if (inside) parcel.rows[row] = Quads(B).at[from / 4];
            continue;
        }
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            if (inside && column + i < N) parcel.rows[row] |= uint(B.at[from + i]) << i * 8;
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

void store_parcel_of_b(uint at, PARCEL_OF_B parcel) {
    uvec4 columns[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        columns[i] =
            transposed(parcel.rows[4 * i], parcel.rows[4 * i + 1], parcel.rows[4 * i + 2], parcel.rows[4 * i + 3]);
    }
    if (PARCELS % LANES != 0 && at >= PARCELS) return;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        tiles[SLAB_A + (at / PARCELS_DOWN * 4 + j) * STRIDE_B + at % PARCELS_DOWN] =
            uvec4(columns[0][j], columns[1][j], columns[2][j], columns[3][j]);
    }
}

// The matrix of a slab from its row `k` on that is number `c` of a warp tile whose first column in the block is
// `warp_column`.
#define LOAD_B(matrix, warp_column, k, c)                                                                   \
    coopMatLoad(matrix, tiles, SLAB_A + (warp_column + (c) * TN) * STRIDE_B + (k) / PIECE, STRIDE_B,        \
                gl_CooperativeMatrixLayoutColumnMajor);
