// Brings strips of 32 columns up to date with the inner block before them, which pivot-panel has factorised: the rows of U beside
// its pivots by substitution, in every work-group anew, then 64 rows of W less L times these. The first strip is the next
// inner block, on its way to the panel; the others stay where they are.
//
// The solution moves through the registers, as in blocked-solve.
// Mapping: x is a block of 64 positions, y the strip; 128 invocations, 4×4 elements each.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x = 128) in;

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals P, Q;     // of the block before
    Reals NEXT;     // the panel of the next inner block
    Reals U;        // n×n
    Indices rows, next_rows;
    uint n, stride;
    uint first;     // row and column of the block before
    uint plane;     // its first column in P, and its first row in Q
    uint next;      // the first column of the first strip in NEXT
    uint begin;     // the first of the strips to bring up to date
};

const uint BLOCK = 64;              // positions of a work-group
const uint QUADS = INNER / 4;       // of a row of the strip
const uint LINE = BLOCK / 4;        // quads of a column of L
const uint LANES = gl_WorkGroupSize.x;
const uint PART = 16;               // rows that are solved for before the rest is updated

shared vec4 corner[INNER * QUADS];  // [k][row of L], of the block before
shared vec4 strip[INNER * QUADS];   // [k][column]: its rows of U in these columns, in quads whose order changes with k
shared vec4 below[INNER * LINE];    // [k][position]: L

// Where quad q of row k of the strip is: rows of one quad lie in different banks.
uint quad(uint k, uint q) { return k * QUADS + (q ^ k % QUADS); }

void main() {
    uint lane = gl_LocalInvocationID.x, top = first + INNER + gl_WorkGroupID.x * BLOCK;
    uint index = begin + gl_WorkGroupID.y, left = first + INNER + index * INNER;
    // All loads are on their way before the first is waited for.
    uint row_of_strip[2], row_of[4];
    [[unroll]] for (uint j = 0; j < 2; ++j) row_of_strip[j] = rows.at[first + (j * LANES + lane) / QUADS];
    uint y = lane / QUADS, x = lane % QUADS;
    [[unroll]] for (uint r = 0; r < 4; ++r) row_of[r] = rows.at[min(top + 4 * y + r, stride - 1)];
    vec4 triangle[2], factors[4], raw[2], sums[4];
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        uint at = j * LANES + lane;
        triangle[j] = Quads(P).at[((plane + at / QUADS) * stride + first) / 4 + at % QUADS];
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        uint at = j * LANES + lane, from = min(top + at % LINE * 4, stride - 4);
        factors[j] = Quads(P).at[((plane + at / LINE) * stride + from) / 4];
    }
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        raw[j] = Quads(W).at[(row_of_strip[j] * stride + left) / 4 + (j * LANES + lane) % QUADS];
    }
    [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = Quads(W).at[(row_of[r] * stride + left) / 4 + x];
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        uint at = j * LANES + lane;
        corner[at] = triangle[j];
        strip[quad(at / QUADS, at % QUADS)] = raw[j];
    }
    [[unroll]] for (uint j = 0; j < 4; ++j) below[j * LANES + lane] = factors[j];
    barrier();
    for (uint base = 0; base < INNER; base += PART) {
        if (lane < INNER) {
            float a[PART];
            [[unroll]] for (uint k = 0; k < PART; ++k) a[k] = strip[quad(base + k, lane / 4)][lane % 4];
            for (uint four = 0; four < PART; four += 4) {
                uint from = (base + four) * QUADS + (base + four) / 4;
                [[unroll]] for (uint k = 0; k < 4; ++k) {
                    vec4 line = corner[from + k * QUADS];
                    strip[quad(base + four + k, lane / 4)][lane % 4] = a[k];
                    [[unroll]] for (uint c = 0; c < 4; ++c) if (c > k) a[c] -= line[c] * a[k];
                }
                vec4 solved = vec4(a[0], a[1], a[2], a[3]);
                // Lines are clamped at the end of the block: the values behind the part that this spoils are never read.
                [[unroll]] for (uint q = 1; q < PART / 4; ++q) {
                    vec4 values = vec4(a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]);
                    [[unroll]] for (uint k = 0; k < 4; ++k) {
                        values -= corner[min(from + k * QUADS + q, INNER * QUADS - 1)] * solved[k];
                    }
                    a[4 * q - 4] = values.x;
                    a[4 * q - 3] = values.y;
                    a[4 * q - 2] = values.z;
                    a[4 * q - 1] = values.w;
                }
            }
        }
        barrier();
        if (base == 0) {
            // A quad of a row for each invocation.
            uint row = PART + lane / QUADS, q = lane % QUADS;
            vec4 rest = strip[quad(row, q)];
            [[unroll]] for (uint k = 0; k < PART; ++k) rest -= corner[k * QUADS + row / 4][row % 4] * strip[quad(k, q)];
            strip[quad(row, q)] = rest;
        }
        barrier();
    }
    [[unroll]] for (uint k = 0; k < INNER; ++k) {
        vec4 l = below[k * LINE + y], u = strip[quad(k, x)];
        [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= l[r] * u;
    }
    if (top + 4 * y < stride && index > 0) {
        [[unroll]] for (uint r = 0; r < 4; ++r) Quads(W).at[(row_of[r] * stride + left) / 4 + x] = sums[r];
    } else if (top + 4 * y < stride) {
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            Quads(NEXT).at[((next + 4 * x + c) * stride + top) / 4 + y] = vec4(sums[0][c], sums[1][c], sums[2][c], sums[3][c]);
        }
        // The next outer block exchanges rows while others need the order of this one.
        if (next == 0 && x == 0) [[unroll]] for (uint r = 0; r < 4; ++r) next_rows.at[top + 4 * y + r] = row_of[r];
    }
    if (gl_WorkGroupID.x > 0) return;
    [[unroll]] for (uint j = 0; j < 2; ++j) {
        uint k = (j * LANES + lane) / QUADS, q = (j * LANES + lane) % QUADS;
        vec4 values = strip[quad(k, q)];
        Quads(Q).at[((plane + k) * stride + left) / 4 + q] = values;
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            if (first + k < n && left + 4 * q + c < n) U.at[(first + k) * n + left + 4 * q + c] = values[c];
        }
    }
}
