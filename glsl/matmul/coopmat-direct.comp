// Products by cooperative matrices whose components come straight from global memory: nothing is staged, and no sub-group waits
// for another before the end. For few rows or columns, where little that is loaded would be shared.
//
// The sub-groups of a work-group share K: each goes through a part of its own for all of the block, or for one of few warp tiles,
// and their sums meet in shared memory.
//
// Which lane has which component of a matrix is the device's affair. Here it is as on NVIDIA's (PTX, mma.m16n8k16): lane 4g + q has
// in components 2h and 2h + 1
//
//   of A (16×16)  row g, from 4 on row g + 8, columns 2q + 8·(h % 2) and the next
//   of B (16×8)   column g, rows 2q + 8·h and the next
//   of C (16×8)   row g, from 2 on row g + 8, columns 2q and 2q + 1
//
// But any order of k will do that both operands have, and any order of rows and columns that C has. So lane 4g + q takes of
// each 32 k the eight from 8q on, four for either of two matrices, and of a warp tile's rows, and columns, the neighbours from
// g·LINES on, each for another half of a matrix: it loads pieces of up to 16 bytes, whichever way operands are stored, and its sums
// are neighbours in C.
//
// Of what lies across K eight lanes so load from four rows. With EXCHANGE a lane loads it for another, lane 8q + g the neighbours from
// g·LINES on in the eight k from 8q on: eight lanes then load from one row. Before they multiply they hand it to each other.
#version 460
#pragma dtypes f16
#pragma layouts nn nt tn
#include "matmul-matrix.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 1) const uint A_STEP = 1;  // rows of A, and of B, start at multiples of so many components, a power of two
layout(constant_id = 2) const uint B_STEP = 1;
layout(constant_id = 6) const uint WM = 32;  // the warp tile
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 11) const uint C_STEP = 1;
layout(constant_id = 12) const uint K_STEP = 1;  // K is a multiple of so many
layout(constant_id = 13) const uint EVEN = 0;    // and of what a work-group multiplies in two steps: nothing beyond it need be left out

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pieces { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer ResultPairs { uvec2 at[]; };
#include "matmul-pieces.glsl"

layout(constant_id = 14) const uint EXCHANGE = 0;  // lanes load for each other what lies across K

const uint DEPTH = 32;  // k that a sub-group loads at a time
const uint OWN = 8;     // of these, a lane's
const uint LINES_A = WM / 8;  // rows of A, and columns of B, of a lane
const uint LINES_B = WN / 8;
const uint ROWS = WM / 16;
const uint WARPS_ACROSS = BN / WN;
const uint TILES = BM / WM * WARPS_ACROSS;
const uint SHARING = BK / DEPTH;  // sub-groups that share K
const uint LANES_PER_WARP = 32;

// Quads of sums of a row of matrices, of each sub-group.
const uint QUADS = LINES_B;
shared vec4 partial[TILES * SHARING * QUADS * LANES_PER_WARP];

#define COMPONENT(word, i) unpackFloat2x16(word)[(i) % 2]

// `count` words, at most 4, of a row across K from component `from` on.
uvec4 words_at(Operand x, uint from, uint count, uint step) {
    if (count == 4) return piece_at(x, from, step);
    if (count == 2 && step >= PIECE / 2) return uvec4(Pairs(x).at[from / (PIECE / 2)], 0, 0);
    uint word = from / 2;
    uvec2 words = uvec2(Words(x).at[word], Words(x).at[word + 1]);
    if (step >= 2 || from % 2 == 0) return uvec4(words, 0, 0);
    return uvec4(words.x >> 16 | words.y << 16, words.y >> 16 | Words(x).at[word + 2] << 16, 0, 0);
}

// Macros, for GLSL passes no arrays whose length is a specialization constant. They are of an operand x with `lines` lines of a
// lane, of `extent` in all, the lane's first being `first`. FETCH reads the lane's part of the DEPTH k from `k` on into next,
// zero beyond K; HAND gives it to the lane that it is for; OF is its component of a line for the lane's k number `i`.
#define FETCH_ALONG(next, lines, x, k, first, extent, step)                                                 \
    [[unroll]] for (uint i = 0; i < lines; ++i) {                                                           \
        uint from = min(first + i, extent - 1) * K + (k);                                                   \
        uvec4 piece = EVEN != 0 ? piece_at(x, from, step) : piece_along(x, from, k, step);                  \
        [[unroll]] for (uint j = 0; j < 4; ++j) next[4 * i + j] = piece[j];                                 \
    }
#define HAND_ALONG(next, lines)
#define OF_ALONG(next, lines, line, i) COMPONENT(next[4 * (line) + (i) / 2], i)
#define FETCH_ACROSS(next, lines, x, k, first, extent, step)                                                \
    uint nearest = step >= lines ? min(first, extent - lines) : first;                                      \
    [[unroll]] for (uint i = 0; i < OWN; ++i) {                                                             \
        bool inside = EVEN != 0 || (K_STEP >= OWN ? (k) < K : (k) + i < K);                                 \
        inside = inside && (step >= lines || first < extent);                                               \
        uvec4 piece = inside ? words_at(x, ((k) + i) * extent + nearest, lines / 2, step) : uvec4(0);       \
        [[unroll]] for (uint j = 0; j < lines / 2; ++j) next[lines / 2 * i + j] = piece[j];                 \
    }
#define HAND_ACROSS(next, lines)                                                                         \
    if (EXCHANGE != 0) {                                                                                    \
        [[unroll]] for (uint i = 0; i < 4 * lines; ++i) next[i] = subgroupShuffle(next[i], q * 8 + g);      \
    }
#define OF_ACROSS(next, lines, line, i) COMPONENT(next[lines / 2 * (i) + (line) / 2], line)

#if defined(LAYOUT_TN)
#define FETCH_A FETCH_ACROSS
#define HAND_A HAND_ACROSS
#define OF_A OF_ACROSS
#define LINE_A (EXCHANGE != 0 ? lane % 8 : g)
#define DEEP_A (EXCHANGE != 0 ? lane / 8 : q)
#else
#define FETCH_A FETCH_ALONG
#define HAND_A HAND_ALONG
#define OF_A OF_ALONG
#define LINE_A g
#define DEEP_A q
#endif
#if defined(LAYOUT_NT)
#define FETCH_B FETCH_ALONG
#define HAND_B HAND_ALONG
#define OF_B OF_ALONG
#define LINE_B g
#define DEEP_B q
#else
#define FETCH_B FETCH_ACROSS
#define HAND_B HAND_ACROSS
#define OF_B OF_ACROSS
#define LINE_B (EXCHANGE != 0 ? lane % 8 : g)
#define DEEP_B (EXCHANGE != 0 ? lane / 8 : q)
#endif

// Reads this lane's part of the DEPTH k from `k` on. Behind the `end` of the sub-group's part of K there is nothing to read, and if K is EVEN
// nothing of it is multiplied.
#define FETCH(next_a, next_b, k, end)                                                                       \
    {                                                                                                       \
        uint own_a = EVEN != 0 ? min(k, K - DEPTH) + OWN * DEEP_A : (k) < end ? (k) + OWN * DEEP_A : K;     \
        uint own_b = EVEN != 0 ? min(k, K - DEPTH) + OWN * DEEP_B : (k) < end ? (k) + OWN * DEEP_B : K;     \
        { FETCH_A(next_a, LINES_A, A, own_a, row_a, M, A_STEP) }                                            \
        { FETCH_B(next_b, LINES_B, B, own_b, column_b, N, B_STEP) }                                         \
    }

// Adds the products of these to the sums.
#define MULTIPLY(sums, own_a, own_b)                                                                        \
    HAND_A(own_a, LINES_A)                                                                                  \
    HAND_B(own_b, LINES_B)                                                                                  \
    [[unroll]] for (uint half_of = 0; half_of < OWN; half_of += 4) {                                        \
        coopmat<IN, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a[ROWS];                                       \
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                        \
            [[unroll]] for (uint i = 0; i < 8; ++i) {                                                       \
                a[r][i] = OF_A(own_a, LINES_A, 2 * r + i / 4, half_of + i % 4);                             \
            }                                                                                               \
        }                                                                                                   \
        [[unroll]] for (uint c = 0; c < LINES_B; ++c) {                                                     \
            coopmat<IN, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB> b;                                          \
            [[unroll]] for (uint i = 0; i < 4; ++i) b[i] = OF_B(own_b, LINES_B, c, half_of + i);            \
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                    \
                sums[r * LINES_B + c] = coopMatMulAdd(a[r], b, sums[r * LINES_B + c]);                      \
            }                                                                                               \
        }                                                                                                   \
    }

// Stores four neighbours in a row of C.
void keep(uint row, uint column, vec4 sum) {
    if (row >= M || column >= N) return;
    uint to = row * N + column;
    if (C_STEP >= 4) {
        ResultPairs(C).at[to / 4] = uvec2(packFloat2x16(f16vec2(sum.xy)), packFloat2x16(f16vec2(sum.zw)));
        return;
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (column + i < N) C.at[to + i] = OUT(sum[i]);
    }
}

void main() {
    uint lane = gl_SubgroupInvocationID, g = lane / 4, q = lane % 4;
    uint tile = gl_SubgroupID % TILES, sharer = gl_SubgroupID / TILES;
    uint first_row = (STRIP * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    if (first_row >= M) return;  // uniform in the group: the last strip may be narrower
    uint tile_row = first_row + tile / WARPS_ACROSS * WM, row = tile_row + g * LINES_A;
    uint tile_column = gl_WorkGroupID.y * BN + tile % WARPS_ACROSS * WN;
    uint row_a = tile_row + LINE_A * LINES_A, column_b = tile_column + LINE_B * LINES_B;

    coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator> sums[ROWS * LINES_B];
    [[unroll]] for (uint i = 0; i < ROWS * LINES_B; ++i) {
        sums[i] = coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>(0.0);
    }

    // Double buffers of operands: one is loaded while the other is multiplied.
    uint even_a[4 * LINES_A], even_b[4 * LINES_B], odd_a[4 * LINES_A], odd_b[4 * LINES_B];
    uint deep = ((K + DEPTH - 1) / DEPTH + SHARING - 1) / SHARING * DEPTH;
    uint end = min(K, (sharer + 1) * deep);
    FETCH(even_a, even_b, sharer * deep, end)
    for (uint k = sharer * deep; k < end; k += 2 * DEPTH) {
        FETCH(odd_a, odd_b, k + DEPTH, end)
        MULTIPLY(sums, even_a, even_b)
        FETCH(even_a, even_b, k + 2 * DEPTH, end)
        MULTIPLY(sums, odd_a, odd_b)
    }

    // A row of matrices at a time. Of the sums of a lane, quad number `quad` has four neighbours of a row of C.
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (r > 0) barrier();
        [[unroll]] for (uint quad = 0; quad < QUADS; ++quad) {
            uint i = 4 * quad / LINES_B, c = r * LINES_B + 4 * quad % LINES_B;
            partial[(gl_SubgroupID * QUADS + quad) * LANES_PER_WARP + lane] =
                vec4(sums[c][i], sums[c + 1][i], sums[c + 2][i], sums[c + 3][i]);
        }
        barrier();
        for (uint quad = sharer; quad < QUADS; quad += SHARING) {
            vec4 sum = vec4(0);
            [[unroll]] for (uint s = 0; s < SHARING; ++s) {
                sum += partial[((s * TILES + tile) * QUADS + quad) * LANES_PER_WARP + lane];
            }
            uint i = 4 * quad / LINES_B;
            keep(row + 2 * r + i / 2, tile_column + (2 * q + i % 2) * LINES_B + 4 * quad % LINES_B, sum);
        }
    }
}
