// A 1-D register tile: each invocation computes TM elements of one column of C. A value of B that it has read from
// shared memory serves TM products, so shared memory is read 1 + 1/TM times a product, not twice as in `local-2d`.
//
// A group computes BM×BN elements: its invocations lie along the BN columns, BM / TM of them down a column, each with
// rows that are strided by BM / TM.
// Source: S. Boehm, "How to optimize a CUDA matmul kernel", 2022, kernel 4.
#version 460
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_null_initializer : require
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;  // (BM / TM)·BN
layout(constant_id = 1) const uint BM = 64;
layout(constant_id = 2) const uint BN = 64;
layout(constant_id = 3) const uint BK = 8;
layout(constant_id = 4) const uint TM = 8;

const uint LANES = gl_WorkGroupSize.x;
const uint DOWN = BM / TM;  // invocations along a column of the block

shared ACC tile_a[BM * BK];
shared ACC tile_b[BK * BN];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = folded_group_y() * BM;
    uint first_column = gl_WorkGroupID.x * BN;
    uint y = lane / BN, x = lane % BN;

    ACC sums[TM] = {};
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
            ACC b = tile_b[i * BN + x];
            [[unroll]] for (uint r = 0; r < TM; ++r) sums[r] += tile_a[(r * DOWN + y) * BK + i] * b;
        }
        barrier();
    }

    uint column = first_column + x;
    [[unroll]] for (uint r = 0; r < TM; ++r) {
        uint row = first_row + r * DOWN + y;
        if (row < M && column < N) C.at[row * N + column] = store(sums[r]);
    }
}
