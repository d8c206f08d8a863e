// Column i of L below the diagonal: L[r][i] = A[r][i] / A[i][i].
// Mapping: an exact index space of n-i-1 invocations at offset i+1; Vulkan has no offsets, so i is an argument, and no
// partial work-groups, so the last one is guarded.
// Source: the LU post, the improved version's range {N-(i+1)} at offset {i+1}.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = i + 1 + gl_GlobalInvocationID.x;
    if (row >= n) return;

    ACC pivot = load(A.at[i * n + i]);
    if (row == i + 1) check_pivot(pivot);
    L.at[row * n + i] = store(load(A.at[row * n + i]) / pivot);
}
