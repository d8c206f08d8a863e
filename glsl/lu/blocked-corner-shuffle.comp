// Brings the next diagonal block of 64×64 elements up to date, then factorises it: the one sequential part of a
// factorisation without pivoting, by one work-group, while others update the rest of W.
//
// The block is factorised in steps of 8 columns. A step's diagonal block is in the registers of 8 lanes, a row each, of
// three sub-groups at once, so that none waits for another: the first has the rows below too, the others the columns
// beside, and each finds the rows of the pivots, two at a time, by shuffles. Then all update what is left of the block,
// and idle sub-groups store it a step later. The registers of the diagonal block move with the pivot, so that a loop over pivots
// remains one: code that runs once is code to be fetched.
// Mapping: one work-group of 256.
#version 460
#pragma dtypes f32
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;

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

const uint NB = 64;
const uint STEP = 8;             // columns that are factorised at a time
const uint UNROLL = 8;           // products of an element between which no loop is
const uint LANES = gl_WorkGroupSize.x;
const uint LINE = NB / 4 + 1;    // quads of a row of the block
const uint SLAB = 32;            // of the last outer block
const uint SLAB_QUADS = SLAB * NB / 4;
const uint SET = 32;             // the size of a sub-group
const uint SETS = 3;             // sub-groups that have the diagonal block of a step
const uint PARTS = SET / STEP;   // of a sub-group, that have it
const uint BESIDE = ((NB - STEP) / (2 * PARTS) + 3) / 4 * 4;  // columns beside it that a part has

shared vec4 block[NB * LINE];           // before: slabs of columns of P_LAST, then of rows of Q_LAST
shared vec4 factors[2 * STEP * NB / 4];  // [k][row]: the columns of a step, when done; of even and of odd steps

float factor_at(uint at) { return factors[at / 4][at % 4]; }

// Subtracts columns of P_LAST times rows of Q_LAST, and leaves the block in shared memory.
void update() {
    uint lane = gl_LocalInvocationID.x, y = lane / (NB / 4), x = lane % (NB / 4);
    vec4 sums[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = Quads(W).at[((first + 4 * y + r) * stride + first) / 4 + x];
    vec4 next[2 * SLAB_QUADS / LANES];
#define FETCH(k)                                                                                            \
    [[unroll]] for (uint i = 0; i < SLAB_QUADS / LANES; ++i) {                                              \
        uint at = i * LANES + lane, from = (((k) + at / (NB / 4)) * stride + first) / 4 + at % (NB / 4);    \
        next[2 * i] = Quads(P_LAST).at[from];                                                               \
        next[2 * i + 1] = Quads(Q_LAST).at[from];                                                           \
    }
    if (depth > 0) {
        FETCH(0)
    }
    for (uint k = 0; k < depth; k += SLAB) {
        barrier();
        [[unroll]] for (uint i = 0; i < SLAB_QUADS / LANES; ++i) {
            block[i * LANES + lane] = next[2 * i];
            block[SLAB_QUADS + i * LANES + lane] = next[2 * i + 1];
        }
        barrier();
        if (k + SLAB < depth) {
            FETCH(k + SLAB)
        }
        for (uint s = 0; s < SLAB; s += UNROLL) {
            [[unroll]] for (uint t = 0; t < UNROLL; ++t) {
                vec4 l = block[(s + t) * (NB / 4) + y], u = block[SLAB_QUADS + (s + t) * (NB / 4) + x];
                [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= l[r] * u;
            }
        }
    }
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) block[(4 * y + r) * LINE + x] = sums[r];
    barrier();
}

// Stores the rows and columns of a step, by `lanes` invocations of which this is number `lane`.
void store(uint base, uint lane, uint lanes) {
    uint columns = base / STEP % 2 * STEP * NB;
    for (uint at = lane; at < STEP * NB; at += lanes) {
        uint k = at / NB, row = at % NB;
        if (row >= base) P.at[(plane + base + k) * stride + first + row] = factor_at(columns + at);
    }
    for (uint at = lane; at < STEP * NB; at += lanes) {
        uint row = at / STEP, column = base + at % STEP;
        if (row < base) continue;
        float value = factor_at(columns + at % STEP * NB + row);
        if (row < base + STEP) Q.at[(plane + row) * stride + first + column] = value;
        if (first + row >= n || first + column >= n) continue;
        uint to = (first + row) * n + first + column;
        if (row > column) L.at[to] = value;
        else U.at[to] = value;
        if (row != column) continue;
        L.at[to] = 1.0;
        // Nothing lies below the last pivot.
        if (first + row + 1 < n) check_pivot(status, value, first + row);
    }
    for (uint at = lane; at < STEP * NB; at += lanes) {
        uint row = base + at / NB, column = at % NB;
        if (column < base + STEP) continue;
        float value = block[row * LINE + column / 4][column % 4];
        Q.at[(plane + row) * stride + first + column] = value;
        if (first + row < n && first + column < n) U.at[(first + row) * n + first + column] = value;
    }
}

void main() {
    update();
    uint lane = gl_LocalInvocationID.x % SET, set = gl_LocalInvocationID.x / SET;
    uint i = lane % STEP, part = lane / STEP;
    for (uint base = 0; base < NB; base += STEP) {
        uint columns = base / STEP % 2 * STEP * NB;
        if (set >= SETS && base > 0) store(base - STEP, gl_LocalInvocationID.x - SETS * SET, LANES - SETS * SET);
        if (set < SETS) {
            // In the first set a lane has two rows; in the others a row of the diagonal block and as many columns beside it.
            uint row = set == 0 ? lane : i;
            uint near = min(base + row, NB - 1), far = base + row + SET;
            uint beside = base + STEP + ((set - 1) * PARTS + part) * BESIDE;
            float a[STEP], b[STEP];
            [[unroll]] for (uint q = 0; q < STEP / 4; ++q) {
                vec4 own = block[near * LINE + base / 4 + q];
                vec4 other = set == 0 ? block[min(far, NB - 1) * LINE + base / 4 + q]
                                      : block[near * LINE + min(beside / 4 + q, LINE - 1)];
                [[unroll]] for (uint c = 0; c < 4; ++c) {
                    a[4 * q + c] = own[c];
                    b[4 * q + c] = other[c];
                }
            }
            for (uint k = 0; k < STEP; k += 2) {
                // The rows of two pivots; the second less what the first leaves of it.
                float u[STEP], v[STEP];
                [[unroll]] for (uint p = 0; p < STEP; ++p) {
                    u[p] = subgroupShuffle(a[p], k);
                    v[p] = subgroupShuffle(a[p], k + 1);
                }
                Divisor by = divisor(u[0]);
                float factor = quotient(v[0], by);
                [[unroll]] for (uint p = 1; p < STEP; ++p) v[p] -= factor * u[p];
                Divisor by_second = divisor(v[1]);
                float l = row > k ? quotient(a[0], by) : 0.0;
                float rest = a[1] - l * u[1];
                float m = row > k + 1 ? quotient(rest, by_second) : 0.0;
                if (set == 0) {
                    uint at = columns + k * NB + near;
                    if (base + lane < NB) {
                        factors[at / 4][at % 4] = row > k ? l : a[0];
                        factors[at / 4 + NB / 4][at % 4] = row > k + 1 ? m : rest;
                    }
                    float far_l = quotient(b[0], by), far_m = quotient(b[1] - far_l * u[1], by_second);
                    at = columns + k * NB + far;
                    if (far < NB) {
                        factors[at / 4][at % 4] = far_l;
                        factors[at / 4 + NB / 4][at % 4] = far_m;
                    }
                    [[unroll]] for (uint p = 2; p < STEP; ++p) b[p - 2] = b[p] - far_l * u[p] - far_m * v[p];
                } else {
                    [[unroll]] for (uint p = 0; p < BESIDE; ++p) {
                        float s = subgroupShuffle(b[p], k + part * STEP);
                        float t = subgroupShuffle(b[p], k + 1 + part * STEP);
                        b[p] -= l * s + m * (t - factor * s);
                    }
                }
                [[unroll]] for (uint p = 2; p < STEP; ++p) a[p - 2] = a[p] - l * u[p] - m * v[p];
            }
            if (set > 0) {
                [[unroll]] for (uint q = 0; q < BESIDE / 4; ++q) {
                    vec4 own = vec4(b[4 * q], b[4 * q + 1], b[4 * q + 2], b[4 * q + 3]);
                    if (beside + 4 * q < NB) block[near * LINE + beside / 4 + q] = own;
                }
            }
        }
        barrier();
        uint across = (NB - base - STEP) / 4;
        if (gl_LocalInvocationID.x < across * across) {
            uint y = (base + STEP) / 4 + gl_LocalInvocationID.x / across;
            uint x = (base + STEP) / 4 + gl_LocalInvocationID.x % across;
            vec4 sums[4];
            [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = block[(4 * y + r) * LINE + x];
            for (uint k = 0; k < STEP; k += UNROLL) {
                [[unroll]] for (uint t = 0; t < UNROLL; ++t) {
                    vec4 l = factors[(columns + (k + t) * NB) / 4 + y], u = block[(base + k + t) * LINE + x];
                    [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= l[r] * u;
                }
            }
            [[unroll]] for (uint r = 0; r < 4; ++r) block[(4 * y + r) * LINE + x] = sums[r];
        }
        barrier();
    }
    store(NB - STEP, gl_LocalInvocationID.x, LANES);
}
