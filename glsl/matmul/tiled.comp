// The top of the ladder without matrix units: a register tile in quads like `vectorised`, and beside it
//
// - warp tiles: the invocations of a sub-group own a warp tile, WM×WN of the block, so that they share the quads they read
//   from shared memory and a read serves them all (a conflict-free broadcast). Its lanes are arranged in blocks of 2×2;
// - prefetch: while a slab is multiplied, the next is on its way from global memory to registers. The order is
//   barrier, store the slab to shared memory, barrier, issue the loads of the next, multiply;
// - padding: rows of the transposed tile of A are one quad longer than they need be, and neighbouring invocations fetch
//   two quads of A a row, so that the 32 scalar stores of a sub-group fall into 32 different banks, while each row
//   gives a whole sector of 32 bytes;
// - a grid in strips: work-groups run in the order of x, then y, then z. With x a few block rows of C, y all block
//   columns and z the strips of block rows, those that run at the same time cover a compact region of C, and what they
//   read of A and B stays in the second-level cache;
// - `[[unroll]]` on every loop but the one over slabs: sums, fragments and prefetched quads are indexed by constants, so
//   they are registers.
//
// Elements of 16 bits become f32 as they are read, so that tiles are the same as those of f32.
//
// Sources: S. Boehm, "How to optimize a CUDA matmul kernel", 2022, kernel 10; the layout of a thread's fragments is
// CUTLASS's (A. Kerr et al., "CUTLASS: Fast linear algebra in CUDA C++", 2017).
// With EVENLY, work-groups share the blocks evenly: see matmul-evenly.glsl.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32
#pragma layouts nn nt tn
#pragma kernel tiled
#pragma kernel tiled-evenly EVENLY
#include "matmul-quads.glsl"

layout(local_size_x_id = 0) in;  // (BM / TM)·(BN / TN)
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 16;
layout(constant_id = 6) const uint WM = 32;
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint TM = 8;
layout(constant_id = 9) const uint TN = 4;

#if defined(EVENLY)
#include "matmul-evenly.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer SharedSums { ACC4 at[]; };
// Behind the last slab of a stretch there is nothing to fetch.
#define NEXT_K(k, end) ((k) < end ? (k) : K)
#else
#define NEXT_K(k, end) (k)
#endif

const uint LANES = gl_WorkGroupSize.x;
const uint DOWN = WM / TM;    // lanes along a column of the warp tile
const uint ACROSS = WN / TN;  // lanes along a row
const uint LANES_PER_WARP = DOWN * ACROSS;
const uint WARPS_ACROSS = BN / WN;

// Quads of a slab that an invocation moves, and the quads from one k to the next in shared memory.
const uint QUADS_OF_A = BM * BK / 4 / LANES;
const uint QUADS_OF_B = BK * BN / 4 / LANES;
const uint STRIDE_A = BM / 4 + 1;
#if defined(LAYOUT_NT)
const uint STRIDE_B = BN / 4 + 1;
#else
const uint STRIDE_B = BN / 4;
#endif

shared ACC4 tile_a[BK * STRIDE_A];  // a row for each k
shared ACC4 tile_b[BK * STRIDE_B];

// Reads this invocation's quads of a slab, from k on, of an operand x into next: those of `edge` rows along K from row
// `first` of `extent` on, or of `edge` columns; and writes them to a tile. The invocation is number `lane` of the
// work-group. Macros, for GLSL passes no arrays whose length is a specialization constant.
#define FETCH_ALONG(next, quads, x, first, extent, edge, k, aligned, lane)                                  \
    [[unroll]] for (uint i = 0; i < quads; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        next[i] = quad_along(x, (first) + at / 2 % edge, extent, (k) + (at / (2 * edge) * 2 + at % 2) * 4,  \
                             aligned);                                                                      \
    }
#define KEEP_ALONG(tile, stride, next, quads, edge, lane)                                                   \
    [[unroll]] for (uint i = 0; i < quads; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        uint row = at / 2 % edge, to = (at / (2 * edge) * 2 + at % 2) * 4 * stride + row / 4;               \
        tile[to][row % 4] = next[i].x;                                                                      \
        tile[to + stride][row % 4] = next[i].y;                                                             \
        tile[to + 2 * stride][row % 4] = next[i].z;                                                         \
        tile[to + 3 * stride][row % 4] = next[i].w;                                                         \
    }
#define FETCH_ACROSS(next, quads, x, first, extent, edge, k, aligned, lane)                                 \
    [[unroll]] for (uint i = 0; i < quads; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        next[i] = quad_across(x, (k) + at / (edge / 4), (first) + at % (edge / 4) * 4, extent, aligned);    \
    }
// In a tile whose rows are padded, and in one whose rows follow one another.
#define KEEP_ACROSS(tile, stride, next, quads, edge, lane)                                                  \
    [[unroll]] for (uint i = 0; i < quads; ++i) {                                                           \
        uint at = i * LANES + lane;                                                                         \
        tile[at / (edge / 4) * stride + at % (edge / 4)] = next[i];                                         \
    }
#define KEEP_ROWS(tile, stride, next, quads, edge, lane)                                                    \
    [[unroll]] for (uint i = 0; i < quads; ++i) tile[i * LANES + lane] = next[i];

#if defined(LAYOUT_TN)
#define FETCH_A FETCH_ACROSS
#define KEEP_A KEEP_ACROSS
#else
#define FETCH_A FETCH_ALONG
#define KEEP_A KEEP_ALONG
#endif
#if defined(LAYOUT_NT)
#define FETCH_B FETCH_ALONG
#define KEEP_B KEEP_ALONG
#else
#define FETCH_B FETCH_ACROSS
#define KEEP_B KEEP_ROWS
#endif
// Both operands' quads of the slab from k on, for the block that begins at (first_row, first_column) of C.
#define FETCH(next_a, next_b, k, first_row, first_column, lane)                                             \
    FETCH_A(next_a, QUADS_OF_A, A, first_row, M, BM, k, A_ALIGNED != 0, lane)                               \
    FETCH_B(next_b, QUADS_OF_B, B, first_column, N, BN, k, B_ALIGNED != 0, lane)

// Computes the block of C that begins at (first_row, first_column), or what its slabs from k on, before `end`, add to it: for C,
// or for slot `to` of the sums of blocks that groups share (see matmul-evenly.glsl), where C is another's.
void compute(uint first_row, uint first_column, uint k, uint end, bool whole, uint to) {
    uint lane = gl_LocalInvocationID.x;
    // Row and column of this invocation in its warp, in blocks of 2×2, so that lanes i and i ^ 1 read the same quad of A
    // and lanes i and i ^ 2 the same quad of B.
    uint lane_of_warp = lane % LANES_PER_WARP, lane_row = lane_of_warp / ACROSS, lane_column = lane_of_warp % ACROSS;
    if (DOWN % 2 == 0 && ACROSS % 2 == 0) {
        lane_row = lane_of_warp / 4 / (ACROSS / 2) * 2 + lane_of_warp / 2 % 2;
        lane_column = lane_of_warp / 4 % (ACROSS / 2) * 2 + lane_of_warp % 2;
    }
    // First row and column of the invocation's tile within the block, in quads.
    uint quad_y = lane / LANES_PER_WARP / WARPS_ACROSS * (WM / 4) + lane_row;
    uint quad_x = lane / LANES_PER_WARP % WARPS_ACROSS * (WN / 4) + lane_column;

    ACC4 sums[TM * TN / 4] = {};
    ACC4 next_a[QUADS_OF_A], next_b[QUADS_OF_B];

    FETCH(next_a, next_b, k, first_row, first_column, lane)
    for (; k < end; k += BK) {
        barrier();
        KEEP_A(tile_a, STRIDE_A, next_a, QUADS_OF_A, BM, lane)
        KEEP_B(tile_b, STRIDE_B, next_b, QUADS_OF_B, BN, lane)
        barrier();
        FETCH(next_a, next_b, NEXT_K(k + BK, end), first_row, first_column, lane)

        [[unroll]] for (uint i = 0; i < BK; ++i) {
            ACC4 a[TM / 4], b[TN / 4];
            [[unroll]] for (uint r = 0; r < TM / 4; ++r) a[r] = tile_a[i * STRIDE_A + r * DOWN + quad_y];
            [[unroll]] for (uint c = 0; c < TN / 4; ++c) b[c] = tile_b[i * STRIDE_B + c * ACROSS + quad_x];
            // To and fro: each product has a factor in common with the one before, which then need not be read from the
            // register file again. That gives two values a cycle for the three that a multiply-add takes.
            [[unroll]] for (uint r = 0; r < TM; ++r) {
                [[unroll]] for (uint j = 0; j < TN; ++j) {
                    uint c = r % 2 == 0 ? j : TN - 1 - j;
                    sums[r * (TN / 4) + c / 4][c % 4] += a[r / 4][r % 4] * b[c / 4][c % 4];
                }
            }
        }
    }

    [[unroll]] for (uint r = 0; r < TM; ++r) {
        [[unroll]] for (uint c = 0; c < TN / 4; ++c) {
            uint row = (r / 4 * DOWN + quad_y) * 4 + r % 4, column = (c * ACROSS + quad_x) * 4;
            ACC4 quad = sums[r * (TN / 4) + c];
#if defined(EVENLY)
            if (!whole) {
                bool inside = first_row + row < M && first_column + column < N;
                if (inside) SharedSums(SUMS).at[((to * BM + row) * BN + column) / 4] = quad;
                continue;
            }
#endif
            store_quad(first_row + row, first_column + column, quad, 0);
        }
    }
}

void main() {
#if defined(EVENLY)
    uint group = gl_WorkGroupID.x;
    uint at = first_of(group), end = first_of(group + 1);
    for (uint to = group; at < end; to = GROUPS + group) {
        uint block = at / SLABS, slab = at % SLABS, behind = min(SLABS, slab + (end - at));
        uvec2 first = block_at(block) * uvec2(BM, BN);
        compute(first.x, first.y, slab * BK, min(K, behind * BK), behind - slab == SLABS, to);
        at += behind - slab;
    }
#else
    uint first_row = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    if (first_row >= M) return;  // uniform in the group: the last strip may be narrower
    compute(first_row, gl_WorkGroupID.y * BN, 0, K, true, 0);
#endif
}
