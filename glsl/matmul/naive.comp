// Naive product: each invocation reads one row of A and one column of B from global memory.
// Mapping: x is the column of C, so the invocations of a sub-group read neighbouring values of B.
// Source: the matmul post, kernel v0; the SYCL workshop.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32 i8
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1) in;

void main() {
    uint row = folded_group_y() * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
    uint column = gl_GlobalInvocationID.x;
    if (row >= M || column >= N) return;

    ACC sum = ACC(0);
    for (uint k = 0; k < K; ++k) {
        sum += load(A.at[row * K + k]) * load(B.at[k * N + column]);
    }
    C.at[row * N + column] = store(sum);
}
