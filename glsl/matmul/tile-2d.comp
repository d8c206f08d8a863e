// A 2-D register tile: each invocation computes TM×TN elements of C and keeps their sums in registers. For each k it
// reads TM values of A and TN of B from shared memory and makes TM·TN products of them: shared memory, which limits
// `local-2d`, is read (TM + TN) / (TM·TN) times a product in place of twice.
//
// A group computes a BM×BN block of C from slabs of BK columns of A and BK rows of B. An invocation's rows and columns
// are strided by the extent of the group, not neighbours: then neighbouring invocations read neighbouring values of B
// from different banks of shared memory, and write neighbouring values of C.
//
// BM, BN and the sizes of the slabs are multiples of what divides them here; `Cut::legal` checks it.
// Source: S. Boehm, "How to optimize a CUDA matmul kernel", 2022, kernel 5.
#version 460
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_null_initializer : require
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;  // (BM / TM)·(BN / TN)
layout(constant_id = 1) const uint BM = 64;
layout(constant_id = 2) const uint BN = 64;
layout(constant_id = 3) const uint BK = 8;
layout(constant_id = 4) const uint TM = 8;
layout(constant_id = 5) const uint TN = 8;

const uint LANES = gl_WorkGroupSize.x;
const uint DOWN = BM / TM;    // invocations along a column of the block
const uint ACROSS = BN / TN;  // invocations along a row

shared ACC tile_a[BM * BK];
shared ACC tile_b[BK * BN];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = folded_group_y() * BM;
    uint first_column = gl_WorkGroupID.x * BN;
    uint y = lane / ACROSS, x = lane % ACROSS;

    ACC sums[TM * TN] = {};

    for (uint k = 0; k < K; k += BK) {
        // Zeros beyond the edges add nothing to the sums.
        [[unroll]] for (uint i = 0; i < BM * BK / LANES; ++i) {
            uint at = i * LANES + lane;
            uint row = first_row + at / BK, column = k + at % BK;
            tile_a[at] = row < M && column < K ? load(A.at[row * K + column]) : ACC(0);
        }
        [[unroll]] for (uint i = 0; i < BK * BN / LANES; ++i) {
            uint at = i * LANES + lane;
            uint row = k + at / BN, column = first_column + at % BN;
            tile_b[at] = row < K && column < N ? load(B.at[row * N + column]) : ACC(0);
        }
        barrier();
        for (uint i = 0; i < BK; ++i) {
            ACC a[TM], b[TN];
            [[unroll]] for (uint r = 0; r < TM; ++r) a[r] = tile_a[(r * DOWN + y) * BK + i];
            [[unroll]] for (uint c = 0; c < TN; ++c) b[c] = tile_b[i * BN + c * ACROSS + x];
            [[unroll]] for (uint r = 0; r < TM; ++r) {
                [[unroll]] for (uint c = 0; c < TN; ++c) sums[r * TN + c] += a[r] * b[c];
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
