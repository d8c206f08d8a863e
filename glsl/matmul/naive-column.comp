// The naive product with the mapping of the matmul post's published code (group {B,1}): x is the row of C.
// Neighbouring invocations then read A, and write C, a whole row apart: same arithmetic, uncoalesced accesses.
// Source: the matmul post, the repository's kernel v0.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = gl_GlobalInvocationID.x;
    uint column = folded_group_y();
    if (row >= M || column >= N) return;

    ACC sum = ACC(0);
    for (uint k = 0; k < K; ++k) {
        sum += load(A.at[row * K + k]) * load(B.at[k * N + column]);
    }
    C.at[row * N + column] = store(sum);
}
