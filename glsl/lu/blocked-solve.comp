// Triangular solves beside and below a factorised diagonal block: rows of U from L·U = W (SIDE 0), columns of L from L·U = W
// (SIDE 1), by substitution, so that the error bound of elimination holds whatever the condition of the block. A work-group
// has a strip of 32 columns of U, or rows of L, which with the strip laid down are the same. Part by part,
// an invocation solves for one of them, then all update the rest in tiles of 4×4.
//
// The solution moves through the registers: four values are done at a time, and what they leave of the others is written
// four places further down. So places are constants in a loop that remains one.
// Mapping: x is the strip.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // 128
layout(constant_id = 1) const uint NB = 64;
layout(constant_id = 2) const uint SIDE = 0;
layout(constant_id = 3) const uint PERMUTED = 0;  // whether row i of the problem is row `rows[i]` of W
layout(constant_id = 4) const uint PART = 32;     // columns or rows that are solved for before the rest is updated

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals P, Q;
    Reals R;       // U or L, n×n
    Indices rows;
    uint n, stride;
    uint first;    // row and column of the diagonal block
    uint start;    // the first column of U, or row of L
    uint end;      // behind the last
    uint plane;    // where the block's first k is in P and Q
};

const uint WIDTH = 32;         // columns or rows of a strip
const uint QUADS = WIDTH / 4;  // of a line of the strip
const uint LINE = NB / 4;      // quads of a line of the block
const uint LANES = gl_WorkGroupSize.x;
const uint STRIP_QUADS = NB * QUADS / LANES;    // that an invocation moves
const uint BLOCK_QUADS = PART * LINE / LANES;

shared vec4 strip[NB * QUADS];           // [k][column of U or row of L], in quads whose order changes with k
shared vec4 block[PART * LINE];  // [k][row of L or column of U]: of the diagonal block, from one part on

shared vec4 divisors[PART];      // the elements on its diagonal, as Divisor has them

// A share of the lines of the block, from a part on.
#define FETCH(base)                                                                                         \
    [[unroll]] for (uint j = 0; j < BLOCK_QUADS; ++j) {                                                     \
        uint at = j * LANES + lane, source = (plane + (base) + at / LINE) * stride / 4 + first / 4 + at % LINE; \
        next[j] = SIDE == 0 ? Quads(P).at[source] : Quads(Q).at[source];                                    \
    }

// Where quad q of line k is: lines of one quad lie in different banks.
uint quad(uint k, uint q) { return k * QUADS + (q ^ k % QUADS); }

void main() {
    uint lane = gl_LocalInvocationID.x, from = start + gl_WorkGroupID.x * WIDTH;
    vec4 next[BLOCK_QUADS];
    FETCH(0)
    // All on their way before the first is waited for. What is beyond the end is not stored.
    vec4 own[STRIP_QUADS];
    [[unroll]] for (uint j = 0; j < STRIP_QUADS; ++j) {
        uint at = j * LANES + lane;
        if (SIDE == 0) {
            uint k = at / QUADS, column = min(from + at % QUADS * 4, end - 4);
            uint row = PERMUTED != 0 ? rows.at[first + k] : first + k;
            own[j] = Quads(W).at[(row * stride + column) / 4];
        } else {
            uint row = min(from + at / LINE, end - 1);
            own[j] = Quads(W).at[(row * stride + first) / 4 + at % LINE];
        }
    }
    [[unroll]] for (uint j = 0; j < STRIP_QUADS; ++j) {
        uint at = j * LANES + lane;
        if (SIDE == 0) {
            strip[quad(at / QUADS, at % QUADS)] = own[j];
        } else {
            uint i = at / LINE, k = at % LINE * 4;
            [[unroll]] for (uint c = 0; c < 4; ++c) strip[quad(k + c, i / 4)][i % 4] = own[j][c];
        }
    }
    for (uint base = 0; base < NB; base += PART) {
        [[unroll]] for (uint j = 0; j < BLOCK_QUADS; ++j) block[j * LANES + lane] = next[j];
        barrier();
        if (SIDE != 0) {
            if (lane < PART) {
                Divisor by = divisor(block[lane * LINE + (base + lane) / 4][lane % 4]);
                divisors[lane] = vec4(by.scale, by.value, by.reciprocal, 0);
            }
            barrier();
        }
        if (base + PART < NB) {
            FETCH(base + PART)
        }
        for (uint i = lane; i < WIDTH; i += gl_WorkGroupSize.x) {
            float a[PART];
            [[unroll]] for (uint k = 0; k < PART; ++k) a[k] = strip[quad(base + k, i / 4)][i % 4];
            for (uint four = 0; four < PART; four += 4) {
                uint corner = four * LINE + (base + four) / 4;
                [[unroll]] for (uint k = 0; k < 4; ++k) {
                    vec4 line = block[corner + k * LINE];
                    if (SIDE != 0) a[k] = quotient(a[k], Divisor(divisors[four + k].x, divisors[four + k].y, divisors[four + k].z));
                    strip[quad(base + four + k, i / 4)][i % 4] = a[k];
                    [[unroll]] for (uint c = 0; c < 4; ++c) if (c > k) a[c] -= line[c] * a[k];
                }
                vec4 solved = vec4(a[0], a[1], a[2], a[3]);
                // Lines are clamped at the end of the part: the values behind it that this spoils are never read.
                [[unroll]] for (uint q = 1; q < PART / 4; ++q) {
                    vec4 values = vec4(a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]);
                    [[unroll]] for (uint k = 0; k < 4; ++k) values -= block[min(corner + k * LINE + q, PART * LINE - 1)] * solved[k];
                    a[4 * q - 4] = values.x;
                    a[4 * q - 3] = values.y;
                    a[4 * q - 2] = values.z;
                    a[4 * q - 1] = values.w;
                }
            }
        }
        barrier();
        for (uint at = lane; at < (NB - base - PART) / 4 * QUADS; at += gl_WorkGroupSize.x) {
            uint row = base + PART + at / QUADS * 4, q = at % QUADS;
            vec4 sums[4];
            [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = strip[quad(row + r, q)];
            [[unroll]] for (uint k = 0; k < PART; ++k) {
                vec4 solved = strip[quad(base + k, q)], factors = block[k * LINE + row / 4];
                [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= factors[r] * solved;
            }
            [[unroll]] for (uint r = 0; r < 4; ++r) strip[quad(row + r, q)] = sums[r];
        }
        barrier();
    }
    for (uint at = lane; at < NB * QUADS; at += gl_WorkGroupSize.x) {
        uint k = at / QUADS, column = from + at % QUADS * 4;
        vec4 values = strip[quad(k, at % QUADS)];
        if (column >= end) continue;
        if (SIDE != 0) {
            Quads(P).at[((plane + k) * stride + column) / 4] = values;
            continue;
        }
        Quads(Q).at[((plane + k) * stride + column) / 4] = values;
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            if (first + k < n && column + c < n) R.at[(first + k) * n + column + c] = values[c];
        }
    }
    if (SIDE == 0) return;
    for (uint at = lane; at < NB * WIDTH; at += gl_WorkGroupSize.x) {
        uint i = at / NB, k = at % NB;
        if (from + i < min(end, n) && first + k < n) R.at[(from + i) * n + first + k] = strip[quad(k, i / 4)][i % 4];
    }
}
