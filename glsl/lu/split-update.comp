// W -= P·Q on matrix units for f16: both operands come as halves (see split-halves), and of the four products of halves
// three are summed up, in f32, as in matmul/split. Both operands are stored k by k, so that columns of P are loaded as such.
// Mapping: y is the block column; x within z the block row, in strips.
#version 460
#pragma dtypes f32
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 16;
layout(constant_id = 6) const uint WM = 32;  // the warp tile: what a sub-group computes
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint TM = 16;  // the device's matrices: TM×TK times TK×TN
layout(constant_id = 9) const uint TN = 16;
layout(constant_id = 10) const uint TK = 16;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pieces { uvec4 at[]; };
layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Pieces P_HIGH, P_LOW;
    Pieces Q_HIGH, Q_LOW;
    Reals DOWN_ROWS, DOWN_COLUMNS;  // scales of the sums
    uint stride;
    uint top, left;      // the first row and column to update
    uint bottom, right;  // behind the last
    uint depth;
    uint corner;         // rows and columns that are left to blocked-corner
};

const uint PIECE = 8;
const uint ROWS = WM / TM;
const uint COLUMNS = WN / TN;
const uint WARPS_ACROSS = BN / WN;
const uint WARPS = BM / WM * WARPS_ACROSS;
const uint LANES = gl_WorkGroupSize.x;
const uint LANES_PER_WARP = LANES / WARPS;

// A slab's k is a piece longer than its data, so that the same rows of 8 neighbouring k lie in different banks.
const uint LINE_P = BM / PIECE;
const uint LINE_Q = BN / PIECE;
const uint SLAB_P = BK * (LINE_P + 1);
const uint SLAB_Q = BK * (LINE_Q + 1);
const uint PIECES_OF_P = BK * LINE_P / LANES;  // that an invocation moves
const uint PIECES_OF_Q = BK * LINE_Q / LANES;
const uint SLABS = 2 * (SLAB_P + SLAB_Q);
const uint STAGED_LINE = WN / 4 + 1;
const uint STAGED = WARPS * TM * STAGED_LINE;
const uint QUADS = TM * (WN / 4) / LANES_PER_WARP;  // of a row of matrices, that an invocation moves

shared uvec4 tiles[SLABS > STAGED ? SLABS : STAGED];  // high and low halves of P, then those of Q; at the end sums

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint first_row = top + (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    uint first_column = left + gl_WorkGroupID.y * BN;
    if (first_row >= bottom) return;  // uniform in the group: the last strip may be narrower

    uint warp = gl_SubgroupID, warp_row = warp / WARPS_ACROSS * WM, warp_column = warp % WARPS_ACROSS * WN;
    coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator> sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; ++i) {
        sums[i] = coopmat<float, gl_ScopeSubgroup, TM, TN, gl_MatrixUseAccumulator>(0.0);
    }
    uvec4 next_p[2 * PIECES_OF_P], next_q[2 * PIECES_OF_Q];

    // Behind the last slab there is nothing to fetch: the last once more is one branch less.
#define FETCH(k)                                                                                            \
    {                                                                                                       \
        uint slab = min(k, depth - BK);                                                                     \
        [[unroll]] for (uint i = 0; i < PIECES_OF_P; ++i) {                                                 \
            uint at = i * LANES + lane, row = min(first_row + at % LINE_P * PIECE, stride - PIECE);         \
            uint from = ((slab + at / LINE_P) * stride + row) / PIECE;                                      \
            next_p[2 * i] = P_HIGH.at[from];                                                                \
            next_p[2 * i + 1] = P_LOW.at[from];                                                             \
        }                                                                                                   \
        [[unroll]] for (uint i = 0; i < PIECES_OF_Q; ++i) {                                                 \
            uint at = i * LANES + lane, column = min(first_column + at % LINE_Q * PIECE, stride - PIECE);   \
            uint from = ((slab + at / LINE_Q) * stride + column) / PIECE;                                   \
            next_q[2 * i] = Q_HIGH.at[from];                                                                \
            next_q[2 * i + 1] = Q_LOW.at[from];                                                             \
        }                                                                                                   \
    }
    FETCH(0)
    for (uint k = 0; k < depth; k += BK) {
        barrier();
        [[unroll]] for (uint i = 0; i < PIECES_OF_P; ++i) {
            uint at = i * LANES + lane, to = at / LINE_P * (LINE_P + 1) + at % LINE_P;
            tiles[to] = next_p[2 * i];
            tiles[SLAB_P + to] = next_p[2 * i + 1];
        }
        [[unroll]] for (uint i = 0; i < PIECES_OF_Q; ++i) {
            uint at = i * LANES + lane, to = 2 * SLAB_P + at / LINE_Q * (LINE_Q + 1) + at % LINE_Q;
            tiles[to] = next_q[2 * i];
            tiles[SLAB_Q + to] = next_q[2 * i + 1];
        }
        barrier();
        FETCH(k + BK)

        [[unroll]] for (uint i = 0; i < BK; i += TK) {
            coopmat<float16_t, gl_ScopeSubgroup, TM, TK, gl_MatrixUseA> p[2 * ROWS];
            [[unroll]] for (uint r = 0; r < 2 * ROWS; ++r) {
                uint from = r % 2 * SLAB_P + i * (LINE_P + 1) + (warp_row + r / 2 * TM) / PIECE;
                coopMatLoad(p[r], tiles, from, LINE_P + 1, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
                coopmat<float16_t, gl_ScopeSubgroup, TK, TN, gl_MatrixUseB> high, low;
                uint from = 2 * SLAB_P + i * (LINE_Q + 1) + (warp_column + c * TN) / PIECE;
                coopMatLoad(high, tiles, from, LINE_Q + 1, gl_CooperativeMatrixLayoutRowMajor);
                coopMatLoad(low, tiles, SLAB_Q + from, LINE_Q + 1, gl_CooperativeMatrixLayoutRowMajor);
                // The small products first, each for all rows before the next: a sum that waits for itself is slow.
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(p[2 * r + 1], high, sums[r * COLUMNS + c]);
                }
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(p[2 * r], low, sums[r * COLUMNS + c]);
                }
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    sums[r * COLUMNS + c] = coopMatMulAdd(p[2 * r], high, sums[r * COLUMNS + c]);
                }
            }
        }
    }

    // A row of matrices at a time goes through shared memory, where all know which element is where.
    barrier();
    uint staging = warp * TM * STAGED_LINE;
    uint column = first_column + warp_column + gl_SubgroupInvocationID % (WN / 4) * 4;
    vec4 down_columns = Quads(DOWN_COLUMNS).at[min(column, stride - 4) / 4];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        vec4 own[QUADS];
        float down_rows[QUADS];
        [[unroll]] for (uint i = 0; i < QUADS; ++i) {
            uint row = first_row + warp_row + r * TM + (i * LANES_PER_WARP + gl_SubgroupInvocationID) / (WN / 4);
            own[i] = Quads(W).at[(min(row, stride - 1) * stride + min(column, stride - 4)) / 4];
            down_rows[i] = DOWN_ROWS.at[min(row, stride - 1)];
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
            coopMatStore(
                sums[r * COLUMNS + c], tiles, staging + c * TN / 4, STAGED_LINE, gl_CooperativeMatrixLayoutRowMajor);
        }
        subgroupBarrier();
        [[unroll]] for (uint i = 0; i < QUADS; ++i) {
            uint at = i * LANES_PER_WARP + gl_SubgroupInvocationID, y = at / (WN / 4);
            uint row = first_row + warp_row + r * TM + y;
            vec4 sum = uintBitsToFloat(tiles[staging + y * STAGED_LINE + at % (WN / 4)]);
            bool inside = row < bottom && column < right && (row >= top + corner || column >= left + corner);
            if (inside) Quads(W).at[(row * stride + column) / 4] = own[i] - sum * down_rows[i] * down_columns;
        }
        subgroupBarrier();
    }
}
