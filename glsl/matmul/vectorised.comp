// The 2-D register tile with everything in quads: global memory is read and written 16 bytes at a time, and so is shared
// memory. For that the tile of A lies transposed in shared memory, so that the TM values of one k that an invocation
// needs are neighbours. A quarter of the load and store instructions remain.
//
// An invocation's rows and columns come in quads of four neighbours, which are strided by the extent of the group as
// single ones are in `tile-2d`.
// Source: S. Boehm, "How to optimize a CUDA matmul kernel", 2022, kernel 6.
#version 460
#pragma dtypes f32
#pragma layouts nn
#include "matmul-quads.glsl"

layout(local_size_x_id = 0) in;  // (BM / TM)·(BN / TN)
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 8;
layout(constant_id = 6) const uint TM = 8;
layout(constant_id = 7) const uint TN = 8;

const uint LANES = gl_WorkGroupSize.x;
const uint DOWN = BM / TM;    // invocations along a column of the block
const uint ACROSS = BN / TN;  // invocations along a row

shared vec4 tile_a[BK * BM / 4];  // transposed: BK rows of BM / 4 quads
shared vec4 tile_b[BK * BN / 4];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = folded_group_y() * BM;
    uint first_column = gl_WorkGroupID.x * BN;
    uint y = lane / ACROSS, x = lane % ACROSS;

    vec4 sums[TM * TN / 4] = {};
    for (uint k = 0; k < K; k += BK) {
        [[unroll]] for (uint i = 0; i < BM * BK / 4 / LANES; ++i) {
            uint at = i * LANES + lane;
            uint row = at / (BK / 4), quad = at % (BK / 4);
            vec4 a = quad_along(A, first_row + row, M, k + quad * 4, A_ALIGNED != 0);
            [[unroll]] for (uint c = 0; c < 4; ++c) tile_a[(quad * 4 + c) * (BM / 4) + row / 4][row % 4] = a[c];
        }
        [[unroll]] for (uint i = 0; i < BK * BN / 4 / LANES; ++i) {
            uint at = i * LANES + lane;
            uint row = k + at / (BN / 4), column = first_column + at % (BN / 4) * 4;
            tile_b[at] = quad_across(B, row, column, N, B_ALIGNED != 0);
        }
        barrier();
        for (uint i = 0; i < BK; ++i) {
            vec4 a[TM / 4], b[TN / 4];
            [[unroll]] for (uint r = 0; r < TM / 4; ++r) a[r] = tile_a[i * (BM / 4) + r * DOWN + y];
            [[unroll]] for (uint c = 0; c < TN / 4; ++c) b[c] = tile_b[i * (BN / 4) + c * ACROSS + x];
            [[unroll]] for (uint r = 0; r < TM; ++r) {
                [[unroll]] for (uint c = 0; c < TN / 4; ++c) sums[r * (TN / 4) + c] += a[r / 4][r % 4] * b[c];
            }
        }
        barrier();
    }

    [[unroll]] for (uint r = 0; r < TM; ++r) {
        [[unroll]] for (uint c = 0; c < TN / 4; ++c) {
            uint row = first_row + (r / 4 * DOWN + y) * 4 + r % 4;
            store_quad(row, first_column + (c * ACROSS + x) * 4, sums[r * (TN / 4) + c], 0);
        }
    }
}
