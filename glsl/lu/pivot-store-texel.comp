// Counterpart of pivot-store for software devices: P through a texel view, which has four rows of one column. A lane has four
// rows, and what it fetches of four columns is a quad of each.
// Mapping: x is a block of 32 positions, y an inner block of 32 columns; 8 invocations.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;

layout(binding = 0) uniform samplerBuffer P4;

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals U;
    Indices rows;
    Indices order;  // of all rows that have been pivots
    uint n, stride;
    uint first;  // row and column of the outer block
};

void main() {
    uint left = gl_WorkGroupID.y * INNER, top = first + gl_WorkGroupID.x * INNER + gl_LocalInvocationID.x * 4;
    uint place[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) place[i] = rows.at[top + i];
    if (gl_WorkGroupID.x == gl_WorkGroupID.y) {
        [[unroll]] for (uint i = 0; i < 4; ++i) if (top + i < n) order.at[top + i] = place[i];
    }
    // Above the inner block, U has been solved for, and nobody asks for W.
    if (gl_WorkGroupID.x < gl_WorkGroupID.y) return;
    for (uint k = 0; k < INNER; k += 4) {
        vec4 own[4];
        [[unroll]] for (uint j = 0; j < 4; ++j) own[j] = texelFetch(P4, int(((left + k + j) * stride + top) / 4));
        uint column = first + left + k;
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            vec4 line = vec4(own[0][i], own[1][i], own[2][i], own[3][i]);
            Quads(W).at[(place[i] * stride + column) / 4] = line;
            if (gl_WorkGroupID.x != gl_WorkGroupID.y || top + i >= n) continue;
            [[unroll]] for (uint j = 0; j < 4; ++j) {
                if (top + i <= column + j && column + j < n) U.at[(top + i) * n + column + j] = line[j];
            }
        }
    }
}
