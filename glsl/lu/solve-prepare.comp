// Packs the parts of L or U that solving for a block of 128 positions needs, in the order of their use: its columns in the
// block before and in itself, with zeros above the diagonal, and the inverses of its diagonal blocks of 32 positions, by
// substitution in the columns of the identity. Beyond the last position is the identity.
// Mapping: a work-group has 32 positions of a block; a sub-group of 32 a row, a lane of it a column.
#version 460
#pragma dtypes f32
#include "lu-solve.glsl"

layout(push_constant, scalar) uniform Arguments {
    Reals T;        // L, or U, rows of `stride` elements
    Quads packed;
    Indices rows;   // of T, by position
    Status status;
    uint n, stride;
    uint first;     // position of the first block
};

const uint PITCH = INNER + 1;
const uint TILE = INNER * PITCH;
const uint LINES = 8;           // rows that a work-group loads at once
const uint EACH = INNER / LINES;

shared float tiles[PARTS * TILE];
shared float inverse[INNER * INNER];
shared vec3 divisors[INNER];    // of the diagonal

// Brings 32 rows of the 128 columns from position `left` on to the tiles.
void load(uint top, uint left) {
    uint y = gl_LocalInvocationID.x / INNER, x = gl_LocalInvocationID.x % INNER;
    float loaded[EACH * PARTS];
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        uint row = min(top + r * LINES + y, n - 1), line = PERMUTED != 0 ? rows.at[row] : AT(row);
        [[unroll]] for (uint t = 0; t < PARTS; ++t) {
            loaded[r * PARTS + t] = T.at[line * stride + AT(min(left + t * INNER + x, n - 1))];
        }
    }
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        uint row = top + r * LINES + y;
        [[unroll]] for (uint t = 0; t < PARTS; ++t) {
            uint column = left + t * INNER + x;
            bool kept = row < n && (column < row || SIDE == 1 && column == row);
            float beyond = row == column ? 1.0 : 0.0;
            tiles[t * TILE + (r * LINES + y) * PITCH + x] = kept ? loaded[r * PARTS + t] : beyond;
        }
    }
}

// Stores the tiles, which are rows from `row` on of what begins at `to`.
void store(uint to, uint row) {
    for (uint at = gl_LocalInvocationID.x; at < NB / 4 * INNER; at += gl_WorkGroupSize.x) {
        uint quad = at / INNER, i = at % INNER, from = quad / QUADS * TILE + i * PITCH + quad % QUADS * 4;
        packed.at[to + quad * NB + row + i] = vec4(tiles[from], tiles[from + 1], tiles[from + 2], tiles[from + 3]);
    }
}

void main() {
    uint part = gl_WorkGroupID.x % PARTS, start = first + gl_WorkGroupID.x / PARTS * NB, top = start + part * INNER;
    uint to = start / NB * PACKED, lane = gl_LocalInvocationID.x;
    if (CHAINED != 0 && start > 0) {
        load(top, start - NB);
        barrier();
        store(to, part * INNER);
        barrier();
    }
    load(top, start);
    barrier();
    uint block = part * TILE;
    if (lane < INNER) {
        Divisor own = divisor(tiles[block + lane * PITCH + lane]);
        divisors[lane] = vec3(own.scale, own.value, own.reciprocal);
    }
    barrier();
    store(to + OWN, part * INNER);
    if (lane < INNER) {
        if (SIDE == 1 && top + lane < n) check_pivot(status, tiles[block + lane * PITCH + lane], AT(top + lane));
        // A column of the inverse moves through the registers: what is solved for next is always the first.
        float column[INNER];
        [[unroll]] for (uint i = 0; i < INNER; ++i) column[i] = i == lane ? 1.0 : 0.0;
        for (uint i = 0; i < INNER; ++i) {
            float solved = quotient(column[0], Divisor(divisors[i].x, divisors[i].y, divisors[i].z));
            inverse[i * INNER + lane] = solved;
            // Rows are clamped at the last one: the values computed from the clamped ones are never used.
            [[unroll]] for (uint d = 1; d < INNER; ++d) {
                column[d - 1] = column[d] - tiles[block + min(i + d, INNER - 1) * PITCH + i] * solved;
            }
        }
    }
    barrier();
    for (uint at = lane; at < QUADS * INNER; at += gl_WorkGroupSize.x) {
        uint from = at % INNER * INNER + at / INNER * 4;
        packed.at[to + INVERSES + part * QUADS * INNER + at] =
            vec4(inverse[from], inverse[from + 1], inverse[from + 2], inverse[from + 3]);
    }
}
