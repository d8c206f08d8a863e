// Brings the next diagonal block of NB×NB elements up to date, then factorises it: the one sequential part of a
// factorisation without pivoting, by one work-group, while others update the rest of W. For sub-groups of any size;
// blocked-corner-shuffle is for those of 32.
//
// Each invocation keeps NB/16 × NB/16 elements in registers, cyclically, so that all have work until the end. In a step the
// owners of the next four rows and columns leave them in shared memory, a barrier, everyone factorises the 4×4 elements on
// the diagonal for itself, and updates its own by all four. Two sets of rows and columns make one barrier a step enough.
// Loops over steps stay loops: code that runs once is code to be fetched. Those within have constant bounds: where one
// depends on another loop's variable, a driver left registers in memory.
// Mapping: one work-group of 256.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint NB = 64;

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals P_LAST, Q_LAST;  // that the block is updated by
    Reals P, Q;            // of the outer block it is in
    Reals L, U;            // n×n
    Status status;
    uint n, stride;
    uint first;  // row and column of the block
    uint plane;  // of its first column in P, of its first row in Q
    uint depth;  // columns of P_LAST, rows of Q_LAST
};

const uint SIDE = 16;  // invocations along a row and a column of the block
const uint T = NB / SIDE;
const uint SLAB = 16;

// Slabs of the last outer block; later twice four rows and columns of this one.
shared float left[SLAB * NB];
shared float upper[SLAB * NB];

// An element of L or U at a place of the block.
void store(uint row, uint column, float value) {
    bool inside = first + row < n && first + column < n;
    uint to = (first + row) * n + first + column;
    if (row > column) {
        P.at[(plane + column) * stride + first + row] = value;
        if (inside) L.at[to] = value;
    } else {
        Q.at[(plane + row) * stride + first + column] = value;
        if (inside) U.at[to] = value;
        if (inside && row == column) L.at[to] = 1.0;
    }
}

void main() {
    uint lane = gl_LocalInvocationID.x, y = lane / SIDE, x = lane % SIDE;
    float a[T * T];
    [[unroll]] for (uint i = 0; i < T; ++i) {
        [[unroll]] for (uint j = 0; j < T; ++j) {
            a[i * T + j] = W.at[(first + i * SIDE + y) * stride + first + j * SIDE + x];
        }
    }
    float next_left[T], next_upper[T];  // SLAB·NB / 256 elements
#define FETCH(k)                                                                                            \
    [[unroll]] for (uint i = 0; i < T; ++i) {                                                               \
        uint at = i * SIDE * SIDE + lane, from = ((k) + at / NB) * stride + first + at % NB;                \
        next_left[i] = P_LAST.at[from];                                                                     \
        next_upper[i] = Q_LAST.at[from];                                                                    \
    }
    if (depth > 0) {
        FETCH(0)
    }
    for (uint k = 0; k < depth; k += SLAB) {
        barrier();
        [[unroll]] for (uint i = 0; i < T; ++i) {
            left[i * SIDE * SIDE + lane] = next_left[i];
            upper[i * SIDE * SIDE + lane] = next_upper[i];
        }
        barrier();
        if (k + SLAB < depth) {
            FETCH(k + SLAB)
        }
        [[unroll]] for (uint s = 0; s < SLAB; ++s) {
            float l[T], u[T];
            [[unroll]] for (uint i = 0; i < T; ++i) l[i] = left[s * NB + i * SIDE + y];
            [[unroll]] for (uint j = 0; j < T; ++j) u[j] = upper[s * NB + j * SIDE + x];
            [[unroll]] for (uint i = 0; i < T; ++i) {
                [[unroll]] for (uint j = 0; j < T; ++j) a[i * T + j] -= l[i] * u[j];
            }
        }
    }
    barrier();

    // The block of 16 rows and columns to be factorised is always the first in the registers: what is behind it moves up.
    for (uint b = 0; b < T; ++b) {
        for (uint four = 0; four < SIDE; four += 4) {
            uint set = four / 4 % 2 * 4 * NB;
            if (x / 4 == four / 4) {
                [[unroll]] for (uint i = 0; i < T; ++i) left[set + x % 4 * NB + i * SIDE + y] = a[i * T];
            }
            if (y / 4 == four / 4) {
                [[unroll]] for (uint j = 0; j < T; ++j) upper[set + y % 4 * NB + j * SIDE + x] = a[j];
            }
            barrier();
            // The 4×4 elements on the diagonal: everyone for itself.
            float d[16];
            Divisor by[4];
            [[unroll]] for (uint r = 0; r < 4; ++r) {
                [[unroll]] for (uint c = 0; c < 4; ++c) d[4 * r + c] = upper[set + r * NB + four + c];
            }
            [[unroll]] for (uint p = 0; p < 4; ++p) {
                // Nothing lies below the last pivot.
                uint k = first + b * SIDE + four + p;
                if (lane == 0 && k + 1 < n) check_pivot(status, d[5 * p], k);
                by[p] = divisor(d[5 * p]);
                [[unroll]] for (uint r = 0; r < 4; ++r) {
                    if (r <= p) continue;
                    d[4 * r + p] = quotient(d[4 * r + p], by[p]);
                    [[unroll]] for (uint c = 0; c < 4; ++c) if (c > p) d[4 * r + c] -= d[4 * r + p] * d[4 * p + c];
                }
            }
            float u[4 * T];
            [[unroll]] for (uint j = 0; j < T; ++j) {
                [[unroll]] for (uint p = 0; p < 4; ++p) {
                    float sum = upper[set + p * NB + j * SIDE + x];
                    [[unroll]] for (uint q = 0; q < 4; ++q) if (q < p) sum -= d[4 * p + q] * u[4 * j + q];
                    u[4 * j + p] = sum;
                }
            }
            // Columns of L are not updated, nor are rows of U by those below them.
            [[unroll]] for (uint p = 0; p < 4; ++p) u[p] = x > four + p ? u[p] : 0.0;
            [[unroll]] for (uint i = 0; i < T; ++i) {
                float l[4];
                [[unroll]] for (uint p = 0; p < 4; ++p) {
                    float sum = left[set + p * NB + i * SIDE + y];
                    [[unroll]] for (uint q = 0; q < 4; ++q) if (q < p) sum -= l[q] * d[4 * q + p];
                    l[p] = quotient(sum, by[p]);
                }
                [[unroll]] for (uint p = 0; p < 4; ++p) {
                    bool below = i > 0 || y > four + p;
                    float factor = below ? l[p] : 0.0;
                    [[unroll]] for (uint j = 0; j < T; ++j) a[i * T + j] -= factor * u[4 * j + p];
                    // Its column of L replaces the column.
                    a[i * T] = below && x == four + p ? factor : a[i * T];
                }
            }
        }
        [[unroll]] for (uint j = 0; j < T; ++j) if (b + j < T) store(b * SIDE + y, (b + j) * SIDE + x, a[j]);
        [[unroll]] for (uint i = 1; i < T; ++i) if (b + i < T) store((b + i) * SIDE + y, b * SIDE + x, a[i * T]);
        [[unroll]] for (uint i = 0; i < T; ++i) {
            [[unroll]] for (uint j = 0; j < T; ++j) {
                a[i * T + j] = i + 1 < T && j + 1 < T ? a[min(i + 1, T - 1) * T + min(j + 1, T - 1)] : 0.0;
            }
        }
        barrier();
    }
}
