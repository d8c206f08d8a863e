// The rows of U below the pivot: U[r][c] = A[r][c] - L[r][i]·A[i][c], which is zero in column i.
// Mapping: an exact index space of (n-i-1)×(n-i) invocations at offset (i+1, i); x is the column, y the row.
// Source: the LU post, the improved version's range {N-(i+1), N-i} at offset {i+1, i}.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = i + 1 + folded_group_y();
    uint column = i + gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;

    // Stored as zero rather than as the rounding error of the division.
    ACC value = ACC(0);
    if (column > i) value = load(A.at[row * n + column]) - load(L.at[row * n + i]) * load(A.at[i * n + column]);
    U.at[row * n + column] = store(value);
}
