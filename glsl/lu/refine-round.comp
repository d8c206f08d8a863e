// A in f32, and the rows as they lie.
// Mapping: x is the column, y the row.
#version 460
#pragma dtypes f64
#include "lu-refine.glsl"
#include "fold.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Doubles A;
    Floats rounded;
    Indices rows;
    uint n;
};

void main() {
    uint row = folded_group_y(), column = gl_GlobalInvocationID.x;
    if (row >= n || column >= n) return;
    rounded.at[row * n + column] = float(A.at[row * n + column]);
    if (column == 0) rows.at[row] = row;
}
