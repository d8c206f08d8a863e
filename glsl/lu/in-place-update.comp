// The trailing submatrix of U, in place: U[r][c] -= L[r][i]·U[i][c]. No invocation reads what another one writes, so U
// needs no copy.
// Mapping: (n-i-1)² invocations at (i+1, i+1); x is the column, y the row.
// Source: the LU post, the (N-(i+1))×(N-(i+1)) part of the split update.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = i + 1 + folded_group_y();
    uint column = i + 1 + gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;
    ACC value = load(U.at[row * n + column]) - load(L.at[row * n + i]) * load(U.at[i * n + column]);
    U.at[row * n + column] = store(value);
}
