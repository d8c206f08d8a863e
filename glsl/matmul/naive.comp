// Naive product: each invocation reads one row of A and one column of B from global memory. It needs nothing but the
// element type, so every device has a kernel for every layout.
// Mapping: x is the column of C, so the invocations of a sub-group read neighbouring values of B, except with layout nt.
// Source: the matmul post, kernel v0; the SYCL workshop.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32 i8
#pragma layouts nn nt tn
#include "matmul.glsl"

layout(local_size_x_id = 0, local_size_y_id = 1) in;

void main() {
    uint row = folded_group_y() * gl_WorkGroupSize.y + gl_LocalInvocationID.y;
    uint column = gl_GlobalInvocationID.x;
    if (row >= M || column >= N) return;

    ACC sum = ACC(0);
    for (uint k = 0; k < K; ++k) {
#ifdef LAYOUT_TN
        ACC a = load(A.at[k * M + row]);
#else
        ACC a = load(A.at[row * K + k]);
#endif
#ifdef LAYOUT_NT
        ACC b = load(B.at[column * K + k]);
#else
        ACC b = load(B.at[k * N + column]);
#endif
        sum += a * b;
    }
    C.at[row * N + column] = store(sum);
}
