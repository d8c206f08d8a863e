// Eliminates column i by an n×n launch whose guard leaves (n-i-1)×(n-i) invocations with work: column i of L and the
// rows of U below the pivot, both from A. Every invocation divides by the pivot for itself.
// Mapping: x is the column, y the row.
// Source: the LU post, the naive version.
#version 460
#pragma dtypes f32
#include "lu.glsl"

layout(local_size_x_id = 0) in;

void main() {
    uint row = folded_group_y();
    uint column = gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;
    if (!(row > i && column >= i)) return;

    ACC pivot = load(A.at[i * n + i]);
    ACC factor = load(A.at[row * n + i]) / pivot;
    if (column == i) {
        if (row == i + 1) check_pivot(pivot);
        L.at[row * n + i] = store(factor);
        U.at[row * n + i] = store(ACC(0));
    } else {
        U.at[row * n + column] = store(load(A.at[row * n + column]) - factor * load(A.at[i * n + column]));
    }
}
