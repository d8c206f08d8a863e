// 32 rows of U from L·U = W for software devices, by substitution: W, L and the rows of U above through texel views, 32 rows
// in registers, L by shuffle, as in blocked-update-texel. What rows of U that have been solved for leave of these is taken
// off first, so that an outer block of columns is a dispatch for each 32 rows, and each reads W once.
// Mapping: x is 4·COLUMN_QUADS columns a lane; one sub-group.
#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // the size of the sub-group, 8 at least
layout(constant_id = 1) const uint PERMUTED = 0;  // whether row i of the problem is row `rows[i]` of W
layout(constant_id = 2) const uint COLUMN_QUADS = 2;

layout(binding = 0) uniform samplerBuffer W4;
layout(binding = 1) uniform samplerBuffer P4;
layout(binding = 2) uniform samplerBuffer Q4;

layout(push_constant, scalar) uniform Arguments {
    Reals Q;
    Reals R;       // U, n×n
    Indices rows;
    uint n, stride;
    uint first;    // row and column of the 32×32 elements of L on the diagonal
    uint start;    // the first column of U
    uint end;      // behind the last
    uint plane;    // where those elements' first k is in P and Q
    uint depth;    // rows of U above, from plane − depth on
};

const uint LANES = gl_WorkGroupSize.x;

// Columns of L: 32 rows of one in a texel of 8 lanes.
#define FETCH_L(l, k)                                                                                        \
    [[unroll]] for (uint j = 0; j < 4; ++j) {                                                                \
        l[j] = texelFetch(P4, int(((k) + j) * line + first / 4 + lane % (INNER / 4)));                       \
    }

// Takes four rows of U off all rows from `from` on, one after another: a register that was spilled is loaded once.
#define SUBTRACT(from, l, u)                                                                                 \
    [[unroll]] for (uint r = 0; r < INNER; ++r) {                                                            \
        if (r < (from)) continue;                                                                            \
        float a = subgroupShuffle(l[0][r % 4], r / 4), b = subgroupShuffle(l[1][r % 4], r / 4);              \
        float c = subgroupShuffle(l[2][r % 4], r / 4), d = subgroupShuffle(l[3][r % 4], r / 4);              \
        [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {                                                 \
            vec4 rest = x[r * COLUMN_QUADS + i];                                                             \
            rest -= a * u[i];                                                                                \
            rest -= b * u[COLUMN_QUADS + i];                                                                 \
            rest -= c * u[2 * COLUMN_QUADS + i];                                                             \
            rest -= d * u[3 * COLUMN_QUADS + i];                                                             \
            x[r * COLUMN_QUADS + i] = rest;                                                                  \
        }                                                                                                    \
    }

void main() {
    uint lane = gl_SubgroupInvocationID, line = stride / 4;
    uint column[COLUMN_QUADS];
    [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
        column[i] = start + ((gl_WorkGroupID.x * COLUMN_QUADS + i) * LANES + lane) * 4;
    }
    uint places[INNER / 8];
    [[unroll]] for (uint i = 0; i < INNER / 8; ++i) {
        uint row = first + 8 * i + lane % 8;
        places[i] = PERMUTED != 0 ? rows.at[row] : row;
    }
    // Columns beyond the end are computed like the others, but not stored.
    vec4 x[INNER * COLUMN_QUADS];
    [[unroll]] for (uint r = 0; r < INNER; ++r) {
        uint row = subgroupShuffle(places[r / 8], r % 8);
        [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
            x[r * COLUMN_QUADS + i] = texelFetch(W4, int(row * line + min(column[i], stride - 4) / 4));
        }
    }
    for (uint k = plane - depth; k < plane; k += 4) {
        vec4 l[4], u[4 * COLUMN_QUADS];
        FETCH_L(l, k)
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
                u[j * COLUMN_QUADS + i] = texelFetch(Q4, int((k + j) * line + min(column[i], stride - 4) / 4));
            }
        }
        SUBTRACT(0, l, u)
    }
    [[unroll]] for (uint k = 0; k < INNER; k += 4) {
        vec4 l[4], u[4 * COLUMN_QUADS];
        FETCH_L(l, plane + k)
        [[unroll]] for (uint j = 0; j < 4; ++j) {
            [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
                vec4 own = x[(k + j) * COLUMN_QUADS + i];
                [[unroll]] for (uint p = 0; p < 4; ++p) {
                    if (p < j) own -= subgroupShuffle(l[p][j], k / 4) * u[p * COLUMN_QUADS + i];
                }
                u[j * COLUMN_QUADS + i] = own;
                x[(k + j) * COLUMN_QUADS + i] = own;
            }
        }
        SUBTRACT(k + 4, l, u)
    }
    [[unroll]] for (uint r = 0; r < INNER; ++r) {
        [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
            if (column[i] >= end) continue;
            vec4 values = x[r * COLUMN_QUADS + i];
            Quads(Q).at[(plane + r) * line + column[i] / 4] = values;
            if (first + r >= n) continue;
            uint to = (first + r) * n + column[i];
            if (n % 4 == 0) {
                if (column[i] < n) Quads(R).at[to / 4] = values;
                continue;
            }
            [[unroll]] for (uint c = 0; c < 4; ++c) if (column[i] + c < n) R.at[to + c] = values[c];
        }
    }
}
