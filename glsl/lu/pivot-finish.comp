// L from W, its rows in the order of the pivots.
// Mapping: x is the column, y the row.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"
#include "fold.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals L;       // n×n
    Indices order;
    uint n, stride;
};

void main() {
    uint row = folded_group_y(), column = gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;
    uint from = order.at[row];
    float own = row == column ? 1.0 : 0.0;
    L.at[row * n + column] = column < row ? W.at[from * stride + column] : own;
}
