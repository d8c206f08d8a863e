// W -= P·Q on the rows and columns behind an outer block, the one large product of a factorisation: register tiles in warp
// tiles, the next slab prefetched, as in matmul/tiled. Both operands are stored k by k, so that neither is transposed on
// its way to shared memory. W is read before a few products, while these are on their way, and behind many, when there are
// registers for it.
// Mapping: y is the block column; x within z the block row, in strips.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // (BM / TM)·(BN / TN)
layout(constant_id = 1) const uint PERMUTED = 0;  // whether row i of the problem is row `rows[i]` of W
layout(constant_id = 2) const uint TO_PANEL = 0;  // whether the result goes to NEXT, column by column, in place of W
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 16;
layout(constant_id = 6) const uint WM = 32;
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint TM = 8;
layout(constant_id = 9) const uint TN = 4;
layout(constant_id = 10) const uint AHEAD = 0;  // whether W is read before the products

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals P, Q;
    Reals NEXT;    // the columns from `left` on, each of `stride` rows
    Indices rows, next_rows;
    uint stride;
    uint top, left;      // the first row and column to update
    uint bottom, right;  // behind the last
    uint plane;      // where the operands' first k is
    uint next;       // the column of NEXT to begin with
    uint depth;
    uint corner;     // rows and columns that are left to blocked-corner
};

const uint LANES = gl_WorkGroupSize.x;
const uint DOWN = WM / TM;    // lanes along a column of the warp tile
const uint ACROSS = WN / TN;  // lanes along a row
const uint WARP = DOWN * ACROSS;
const uint WARPS_ACROSS = BN / WN;

// Quads of a slab that an invocation moves, and the quads from one k to the next.
const uint QUADS_OF_P = BM * BK / 4 / LANES;
const uint QUADS_OF_Q = BK * BN / 4 / LANES;
const uint LINE_P = BM / 4;
const uint LINE_Q = BN / 4;

shared vec4 tile_p[BK * LINE_P];
shared vec4 tile_q[BK * LINE_Q];

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = top + (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    uint first_column = left + gl_WorkGroupID.y * BN;
    if (first_row >= bottom) return;  // uniform in the group: the last strip may be narrower

    // In blocks of 2×2, so that lanes i and i ^ 1 read the same quad of P and lanes i and i ^ 2 the same quad of Q.
    uint l = lane % WARP, row = l / ACROSS, column = l % ACROSS;
    if (DOWN % 2 == 0 && ACROSS % 2 == 0) {
        row = l / 4 / (ACROSS / 2) * 2 + l / 2 % 2;
        column = l / 4 % (ACROSS / 2) * 2 + l % 2;
    }
    // First row and column of the invocation's tile within the block, in quads.
    uint y = lane / WARP / WARPS_ACROSS * (WM / 4) + row;
    uint x = lane / WARP % WARPS_ACROSS * (WN / 4) + column;

    vec4 next_p[QUADS_OF_P], next_q[QUADS_OF_Q];

    // Quads beyond the edge repeat the last: their sums are not stored.
#define FETCH(k)                                                                                            \
    [[unroll]] for (uint i = 0; i < QUADS_OF_P; ++i) {                                                      \
        uint at = i * LANES + lane, from = min(first_row + at % LINE_P * 4, stride - 4);                    \
        next_p[i] = Quads(P).at[((plane + (k) + at / LINE_P) * stride + from) / 4];                         \
    }                                                                                                       \
    [[unroll]] for (uint i = 0; i < QUADS_OF_Q; ++i) {                                                      \
        uint at = i * LANES + lane, from = min(first_column + at % LINE_Q * 4, stride - 4);                 \
        next_q[i] = Quads(Q).at[((plane + (k) + at / LINE_Q) * stride + from) / 4];                         \
    }

    vec4 sums[TM * TN / 4] = {};  // of products, less W where that was read before them
    uint start[TM];               // of its rows in W
    FETCH(0)
    [[unroll]] for (uint r = 0; r < TM; ++r) {
        // Rows and columns beyond the edge are read as the first, which is finished: others overwrite theirs.
        uint row = first_row + (r / 4 * DOWN + y) * 4 + r % 4;
        if (row >= bottom) row = 0;
        start[r] = (PERMUTED != 0 ? rows.at[row] : row) * stride;
    }
#define COLUMN(c) (first_column + ((c) * ACROSS + x) * 4)
#define QUAD_OF_W(r, c) Quads(W).at[(start[r] + (COLUMN(c) < right ? COLUMN(c) : 0)) / 4]
    if (AHEAD != 0) {
        [[unroll]] for (uint r = 0; r < TM; ++r) {
            [[unroll]] for (uint c = 0; c < TN / 4; ++c) sums[r * (TN / 4) + c] = -QUAD_OF_W(r, c);
        }
    }
    for (uint k = 0; k < depth; k += BK) {
        barrier();
        [[unroll]] for (uint i = 0; i < QUADS_OF_P; ++i) tile_p[i * LANES + lane] = next_p[i];
        [[unroll]] for (uint i = 0; i < QUADS_OF_Q; ++i) tile_q[i * LANES + lane] = next_q[i];
        barrier();
        if (k + BK < depth) {
            FETCH(k + BK)
        }
        [[unroll]] for (uint i = 0; i < BK; ++i) {
            vec4 p[TM / 4], q[TN / 4];
            [[unroll]] for (uint r = 0; r < TM / 4; ++r) p[r] = tile_p[i * LINE_P + r * DOWN + y];
            [[unroll]] for (uint c = 0; c < TN / 4; ++c) q[c] = tile_q[i * LINE_Q + c * ACROSS + x];
            // To and fro: see matmul/tiled.
            [[unroll]] for (uint r = 0; r < TM; ++r) {
                [[unroll]] for (uint j = 0; j < TN; ++j) {
                    uint c = r % 2 == 0 ? j : TN - 1 - j;
                    sums[r * (TN / 4) + c / 4][c % 4] += p[r / 4][r % 4] * q[c / 4][c % 4];
                }
            }
        }
    }

    // The next panel exchanges rows while others need the order of this one.
    if (TO_PANEL != 0 && next == 0) {
        for (uint i = lane; i < BM; i += LANES) {
            if (first_row + i < bottom) next_rows.at[first_row + i] = rows.at[first_row + i];
        }
    }
    // Half of its rows at a time, whose loads are all on their way before the first is waited for.
    const uint ROWS = TM / 2;
    [[unroll]] for (uint upper = 0; upper < TM; upper += ROWS) {
        vec4 own[ROWS * TN / 4] = {};
        if (AHEAD == 0) {
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                [[unroll]] for (uint c = 0; c < TN / 4; ++c) own[r * (TN / 4) + c] = QUAD_OF_W(upper + r, c);
            }
        }
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            [[unroll]] for (uint c = 0; c < TN / 4; ++c) {
                uint r = upper + i, row = first_row + (r / 4 * DOWN + y) * 4 + r % 4;
                uint column = COLUMN(c);
                vec4 rest = own[i * (TN / 4) + c] - sums[r * (TN / 4) + c];
                if (row >= bottom || column >= right) continue;
                if (TO_PANEL != 0) {
                    [[unroll]] for (uint j = 0; j < 4; ++j) NEXT.at[(next + column - left + j) * stride + row] = rest[j];
                } else if (row >= top + corner || column >= left + corner) {
                    Quads(W).at[(start[r] + column) / 4] = rest;
                }
            }
        }
    }
}
