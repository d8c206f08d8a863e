// W -= P·Q for software devices: operands through texel views, 32 rows in registers, P by shuffle, as in matmul/texel. A
// texel of P has four rows of one k, so that a sub-group of 8 fetches the 32 of a k at once. What is left of W is fetched
// before anybody stores to the same elements: each invocation reads and writes its own.
// Mapping: x is 4·QUADS columns a lane, y the block of 32 rows; one sub-group.
#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // the size of the sub-group, 8 at least
layout(constant_id = 1) const uint PERMUTED = 0;  // whether row i of the problem is row `rows[i]` of W
layout(constant_id = 2) const uint TO_PANEL = 0;  // whether the result goes to NEXT, column by column, in place of W
layout(constant_id = 3) const uint COLUMN_QUADS = 2;

layout(binding = 0) uniform samplerBuffer W4;
layout(binding = 1) uniform samplerBuffer P4;
layout(binding = 2) uniform samplerBuffer Q4;

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals NEXT;    // the columns from `left` on, each of `stride` rows
    Indices rows, next_rows;
    uint stride;
    uint top, left;      // the first row and column to update
    uint bottom, right;  // behind the last; rows end with a block
    uint plane;      // where the operands' first k is
    uint next;       // the column of NEXT to begin with
    uint depth;
    uint corner;     // rows and columns that are left to blocked-corner
};

const uint LANES = gl_WorkGroupSize.x;

void main() {
    uint lane = gl_SubgroupInvocationID, first_row = top + gl_WorkGroupID.y * INNER;
    // Rows are whole blocks of 32, and a panel's columns too.
    uint column[COLUMN_QUADS];
    [[unroll]] for (uint q = 0; q < COLUMN_QUADS; ++q) {
        column[q] = left + ((gl_WorkGroupID.x * COLUMN_QUADS + q) * LANES + lane) * 4;
    }

    vec4 sums[INNER * COLUMN_QUADS] = {};
    uint line = stride / 4;
    for (uint k = 0; k < depth; k += 4) {
        vec4 p[4], q[4 * COLUMN_QUADS];
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            uint at = (plane + k + i) * line;
            p[i] = texelFetch(P4, int(at + first_row / 4 + lane % (INNER / 4)));
            [[unroll]] for (uint c = 0; c < COLUMN_QUADS; ++c) {
                q[c * 4 + i] = texelFetch(Q4, int(at + min(column[c], stride - 4) / 4));
            }
        }
        [[unroll]] for (uint r = 0; r < INNER; ++r) {
            float a = subgroupShuffle(p[0][r % 4], r / 4), b = subgroupShuffle(p[1][r % 4], r / 4);
            float c = subgroupShuffle(p[2][r % 4], r / 4), d = subgroupShuffle(p[3][r % 4], r / 4);
            [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
                vec4 sum = sums[r * COLUMN_QUADS + i];
                sum += a * q[i * 4];
                sum += b * q[i * 4 + 1];
                sum += c * q[i * 4 + 2];
                sum += d * q[i * 4 + 3];
                sums[r * COLUMN_QUADS + i] = sum;
            }
        }
    }

    if (TO_PANEL != 0 && next == 0) {
        for (uint i = lane; i < INNER; i += LANES) next_rows.at[first_row + i] = rows.at[first_row + i];
    }
    // A load brings eight rows' places.
    uint places[INNER / 8];
    [[unroll]] for (uint i = 0; i < INNER / 8; ++i) {
        uint row = first_row + 8 * i + lane % 8;
        places[i] = PERMUTED != 0 ? rows.at[row] : row;
    }
    [[unroll]] for (uint r = 0; r < INNER; ++r) {
        uint row = first_row + r;
        uint start = subgroupShuffle(places[r / 8], r % 8) * stride;
        [[unroll]] for (uint i = 0; i < COLUMN_QUADS; ++i) {
            if (column[i] >= right || (row < top + corner && column[i] < left + corner)) continue;
            vec4 rest = texelFetch(W4, int((start + column[i]) / 4)) - sums[r * COLUMN_QUADS + i];
            if (TO_PANEL == 0) {
                Quads(W).at[(start + column[i]) / 4] = rest;
                continue;
            }
            [[unroll]] for (uint j = 0; j < 4; ++j) NEXT.at[(next + column[i] - left + j) * stride + row] = rest[j];
        }
    }
}
