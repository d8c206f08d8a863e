// Counterpart of pivot-finish for software devices: L from W, its rows in the order of the pivots, W through a texel view.
// Mapping: x is four columns and then every 4·GROUP behind them, y the row.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"
#include "fold.glsl"

layout(local_size_x_id = 0) in;

layout(binding = 0) uniform samplerBuffer W4;

layout(push_constant, scalar) uniform Arguments {
    Reals L;       // n×n
    Indices order;
    uint n, stride;
};

void main() {
    uint row = folded_group_y();
    if (row >= n) return;
    uint from = order.at[row] * (stride / 4);
    // The rest of L is zeros.
    for (uint column = gl_LocalInvocationID.x * 4; column <= row; column += 4 * gl_WorkGroupSize.x) {
        vec4 values = texelFetch(W4, int(from + column / 4));
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            if (column + c >= row) values[c] = column + c == row ? 1.0 : 0.0;
        }
        uint to = row * n + column;
        if (n % 4 == 0) {
            Quads(L).at[to / 4] = values;
        } else {
            [[unroll]] for (uint c = 0; c < 4; ++c) if (column + c < n) L.at[to + c] = values[c];
        }
    }
}
