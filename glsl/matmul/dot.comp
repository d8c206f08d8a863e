// Products of bytes by packed dot products: four elements along K are a word, and one instruction adds up four products.
//
// A group computes a BM×BN block of C from slabs of BK columns of A and BK rows of B, an invocation TM×TN elements of
// it, strided by the extent of the group as in `tile-2d`. In shared memory slabs are words, a row for each four of K.
// An operand whose rows lie along K is read a word at a time. Of one whose rows lie across K an invocation reads four
// words of four rows and transposes them. A row of transposed words is 4 words longer than it need be: then the words
// of a slab of 32 that neighbours store fall into different banks.
//
// Sums wrap modulo 2³², as those of `naive` do, so the saturating form of the instruction is not used.
// Source: OpSDot of SPV_KHR_integer_dot_product; the blocks are those of `tile-2d`.
#version 460
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_null_initializer : require
#extension GL_EXT_integer_dot_product : require
#pragma dtypes i8
#pragma layouts nn nt tn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;                    // (BM / TM)·(BN / TN)
layout(constant_id = 1) const uint A_ALIGNED = 0;  // whether rows of A are whole words
layout(constant_id = 2) const uint B_ALIGNED = 0;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 32;
layout(constant_id = 6) const uint TM = 4;
layout(constant_id = 7) const uint TN = 4;

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Words { int at[]; };

const uint LANES = gl_WorkGroupSize.x;
const uint DOWN = BM / TM;    // invocations along a column of the block
const uint ACROSS = BN / TN;  // invocations along a row
const uint WORDS = BK / 4;
const uint STRIDE_A = BM + 4;
#if defined(LAYOUT_NT)
const uint STRIDE_B = BN + 4;
#else
const uint STRIDE_B = BN;
#endif

shared int tile_a[WORDS * STRIDE_A];
shared int tile_b[WORDS * STRIDE_B];

// Four elements of a row from `column`, a multiple of four, on. Zeros beyond the edges add nothing to the sums.
int word_at(Operand x, uint row, uint rows, uint column, uint columns, bool aligned) {
    if (row >= rows || column >= columns) return 0;
    uint at = row * columns + column;
    if (aligned) return Words(x).at[at / 4];
    int word = 0;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (column + i < columns) word |= (load(x.at[at + i]) & 0xff) << (8 * i);
    }
    return word;
}

// Four columns of four rows, each a word.
ivec4 columns_at(Operand x, uint row, uint rows, uint column, uint columns, bool aligned) {
    ivec4 transposed = ivec4(0);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        int word = word_at(x, row + i, rows, column, columns, aligned);
        transposed |= ((ivec4(word) >> ivec4(0, 8, 16, 24)) & 0xff) << (8 * i);
    }
    return transposed;
}

// Macros, for GLSL passes no arrays whose length is a specialization constant.
#define STAGE_ALONG(tile, stride, x, first, extent, edge, k, aligned)                                       \
    [[unroll]] for (uint i = 0; i < edge * WORDS / LANES; ++i) {                                            \
        uint at = i * LANES + lane, row = at / WORDS, word = at % WORDS;                                    \
        tile[word * stride + row] = word_at(x, (first) + row, extent, (k) + 4 * word, K, aligned);          \
    }
#define STAGE_ACROSS(tile, stride, x, first, extent, edge, k, aligned)                                      \
    [[unroll]] for (uint i = 0; i < (edge / 4 * WORDS + LANES - 1) / LANES; ++i) {                          \
        uint at = i * LANES + lane, word = at / (edge / 4), column = at % (edge / 4) * 4;                   \
        if (word >= WORDS) break;                                                                           \
        ivec4 quad = columns_at(x, (k) + 4 * word, K, (first) + column, extent, aligned);                   \
        [[unroll]] for (uint j = 0; j < 4; ++j) tile[word * stride + column + j] = quad[j];                 \
    }

#if defined(LAYOUT_TN)
#define STAGE_A STAGE_ACROSS
#else
#define STAGE_A STAGE_ALONG
#endif
#if defined(LAYOUT_NT)
#define STAGE_B STAGE_ALONG
#else
#define STAGE_B STAGE_ACROSS
#endif

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = folded_group_y() * BM;
    uint first_column = gl_WorkGroupID.x * BN;
    uint y = lane / ACROSS, x = lane % ACROSS;

    int sums[TM * TN] = {};
    for (uint k = 0; k < K; k += BK) {
        STAGE_A(tile_a, STRIDE_A, A, first_row, M, BM, k, A_ALIGNED != 0)
        STAGE_B(tile_b, STRIDE_B, B, first_column, N, BN, k, B_ALIGNED != 0)
        barrier();
        for (uint word = 0; word < WORDS; ++word) {
            int a[TM], b[TN];
            [[unroll]] for (uint r = 0; r < TM; ++r) a[r] = tile_a[word * STRIDE_A + r * DOWN + y];
            [[unroll]] for (uint c = 0; c < TN; ++c) b[c] = tile_b[word * STRIDE_B + c * ACROSS + x];
            [[unroll]] for (uint r = 0; r < TM; ++r) {
                [[unroll]] for (uint c = 0; c < TN; ++c) sums[r * TN + c] += dotPacked4x8EXT(a[r], b[c]);
            }
        }
        barrier();
    }

    [[unroll]] for (uint r = 0; r < TM; ++r) {
        [[unroll]] for (uint c = 0; c < TN; ++c) {
            uint row = first_row + r * DOWN + y, column = first_column + c * ACROSS + x;
            if (row < M && column < N) C.at[row * N + column] = store(sums[r * TN + c]);
        }
    }
}
