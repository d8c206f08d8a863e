// Brings a factorised outer block from P, where it is column by column and its rows in the order of their positions, to W,
// row by row at the rows' own places, and its part of U on the diagonal to U.
// Mapping: x is a block of 32 positions, y an inner block of 32 columns; 256 invocations.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals P;
    Reals U;
    Indices rows;
    Indices order;  // of all rows that have been pivots
    uint n, stride;
    uint first;  // row and column of the outer block
};

shared float tile[INNER * (INNER + 1)];

void main() {
    uint left = gl_WorkGroupID.y * INNER, top = first + gl_WorkGroupID.x * INNER;
    for (uint at = gl_LocalInvocationID.x; at < INNER * INNER; at += gl_WorkGroupSize.x) {
        uint k = at / INNER, i = at % INNER;
        tile[i * (INNER + 1) + k] = P.at[(left + k) * stride + top + i];
    }
    uint place = first + gl_WorkGroupID.y * INNER + gl_LocalInvocationID.x;
    if (gl_WorkGroupID.x == 0 && gl_LocalInvocationID.x < INNER && place < n) order.at[place] = rows.at[place];
    barrier();
    for (uint at = gl_LocalInvocationID.x; at < INNER * INNER; at += gl_WorkGroupSize.x) {
        uint i = at / INNER, row = top + i, column = first + left + at % INNER;
        float value = tile[i * (INNER + 1) + at % INNER];
        if (row > column) W.at[rows.at[row] * stride + column] = value;
        // Above the inner block, U has been solved for.
        else if (row >= first + left && row < n && column < n) U.at[row * n + column] = value;
    }
}
