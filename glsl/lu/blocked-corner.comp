// Brings the next diagonal block of 64×64 elements up to date, then factorises it: the one sequential part of a
// factorisation without pivoting, by one work-group, while others update the rest of W.
//
// The block is factorised in steps of 16 columns. A step's diagonal block is in the registers of 16 lanes, a row each, in three
// sets of 32 lanes, so that none waits for another: the first set has the rows below too, the others the columns beside, and
// each finds the rows of the pivots, two at a time, in its own lanes. A sub-group of 32 lanes needs no barrier for that, and
// smaller ones one for two columns. Then all update what is left of the block. The registers of the diagonal block move
// with the pivot, so that a loop over pivots remains one: code that runs once is code to be fetched.
// Mapping: one work-group of 256.
#version 460
#pragma dtypes f32
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // 256 or 512
layout(constant_id = 1) const uint SHUFFLE = 0;  // whether 32 neighbouring invocations are a sub-group

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
const uint LANES = gl_WorkGroupSize.x;
const uint TILE = NB * NB / 4 / LANES;  // rows of the quads that an invocation updates
const uint STEP = 16;            // columns that are factorised at a time
const uint LINE = NB / 4 + 1;    // quads of a row of the block
const uint SLAB = 32;            // of the last outer block
const uint SLAB_QUADS = SLAB * NB / 4;
const uint SET = 32;             // lanes that share a copy of the diagonal block
const uint SETS = 3;
const uint BESIDE = (NB - STEP) / 4;  // columns that 16 lanes have: 4 times 16 lanes have all

shared vec4 block[NB * LINE];          // before: slabs of columns of P_LAST, then of rows of Q_LAST
shared float factors[2 * STEP * NB];  // [k][row]: the columns of a step, when done; of even and of odd steps
const uint WORDS = STEP + 2 * BESIDE;  // of a row of a pivot: the diagonal block, and what is beside it
shared float exchange[2 * SETS * 2 * WORDS];

// Subtracts columns of P_LAST times rows of Q_LAST, and leaves the block in shared memory.
void update() {
    uint lane = gl_LocalInvocationID.x, y = lane / (NB / 4) * TILE, x = lane % (NB / 4);
    vec4 sums[TILE];
    [[unroll]] for (uint r = 0; r < TILE; ++r) sums[r] = Quads(W).at[((first + y + r) * stride + first) / 4 + x];
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
        [[unroll]] for (uint s = 0; s < SLAB; ++s) {
            vec4 u = block[SLAB_QUADS + s * (NB / 4) + x];
            [[unroll]] for (uint r = 0; r < TILE; ++r) sums[r] -= block[s * (NB / 4) + (y + r) / 4][(y + r) % 4] * u;
        }
    }
    barrier();
    [[unroll]] for (uint r = 0; r < TILE; ++r) block[(y + r) * LINE + x] = sums[r];
    barrier();
}

// Stores the rows and columns of a step, by `lanes` invocations of which this is number `lane`.
void store(uint base, uint lane, uint lanes) {
    uint columns = base / STEP % 2 * STEP * NB;
    for (uint at = lane; at < STEP * (NB - base); at += lanes) {
        uint k = at / (NB - base), row = base + at % (NB - base);
        P.at[(plane + base + k) * stride + first + row] = factors[columns + k * NB + row];
    }
    for (uint at = lane; at < STEP * (NB - base); at += lanes) {
        uint row = base + at / STEP, column = base + at % STEP;
        float value = factors[columns + at % STEP * NB + row];
        if (row < base + STEP) Q.at[(plane + row) * stride + first + column] = value;
        if (first + row >= n || first + column >= n) continue;
        uint to = (first + row) * n + first + column;
        if (row > column) L.at[to] = value;
        else U.at[to] = value;
        if (row == column) L.at[to] = 1.0;
    }
    uint beside = NB - base - STEP;
    for (uint at = lane; at < STEP * beside; at += lanes) {
        uint row = base + at / beside, column = base + STEP + at % beside;
        float value = block[row * LINE + column / 4][column % 4];
        Q.at[(plane + row) * stride + first + column] = value;
        if (first + row < n && first + column < n) U.at[(first + row) * n + first + column] = value;
    }
}

void main() {
    update();
    uint lane = gl_LocalInvocationID.x % SET, set = gl_LocalInvocationID.x / SET;
    uint i = lane % STEP, half_set = lane / STEP;
    for (uint base = 0; base < NB; base += STEP) {
        uint columns = base / STEP % 2 * STEP * NB;
        // In the first set a lane has two rows; in the others a row of the diagonal block and as many columns beside it.
        uint near = min(base + (set == 0 ? lane : i), NB - 1), far = base + lane + SET;
        uint beside = base + STEP + ((set - 1) * 2 + half_set) * BESIDE;
        float a[STEP], b[STEP];
        if (set < SETS) {
            [[unroll]] for (uint q = 0; q < STEP / 4; ++q) {
                vec4 own = block[near * LINE + base / 4 + q];
                vec4 other = set == 0 ? block[min(far, NB - 1) * LINE + base / 4 + q]
                                      : block[near * LINE + min(beside / 4 + q, LINE - 1)];
                [[unroll]] for (uint c = 0; c < 4; ++c) {
                    a[4 * q + c] = own[c];
                    b[4 * q + c] = other[c];
                }
            }
        } else if (base > 0) {
            store(base - STEP, gl_LocalInvocationID.x - SETS * SET, LANES - SETS * SET);
        }
        for (uint k = 0; k < STEP; k += 2) {
            uint from = (k / 2 % 2 * SETS + set) * 2 * WORDS;
            if (SHUFFLE == 0) {
                if (set < SETS && i / 2 == k / 2 && (set > 0 || half_set == 0)) {
                    uint to = from + i % 2 * WORDS;
                    [[unroll]] for (uint p = 0; p < STEP; ++p) if (half_set == 0) exchange[to + p] = a[p];
                    [[unroll]] for (uint p = 0; p < BESIDE; ++p) exchange[to + STEP + half_set * BESIDE + p] = b[p];
                }
                barrier();
            }
            if (set >= SETS) continue;
            // The rows of two pivots; the second less what the first leaves of it.
            float u[STEP], v[STEP];
            [[unroll]] for (uint p = 0; p < STEP; ++p) {
                u[p] = SHUFFLE != 0 ? subgroupShuffle(a[p], k) : exchange[from + p];
                v[p] = SHUFFLE != 0 ? subgroupShuffle(a[p], k + 1) : exchange[from + WORDS + p];
            }
            // Nothing lies below the last pivot.
            uint pivot = first + base + k;
            Divisor by = divisor(u[0]);
            float factor = quotient(v[0], by);
            [[unroll]] for (uint p = 1; p < STEP; ++p) v[p] -= factor * u[p];
            Divisor by_second = divisor(v[1]);
            if (gl_LocalInvocationID.x == 0) {
                if (pivot + 1 < n) check_pivot(status, u[0], pivot);
                if (pivot + 2 < n) check_pivot(status, v[1], pivot + 1);
            }
            uint row = set == 0 ? lane : i;
            float l = row > k ? quotient(a[0], by) : 0.0;
            float rest = a[1] - l * u[1];
            float m = row > k + 1 ? quotient(rest, by_second) : 0.0;
            if (set == 0) {
                if (base + lane < NB) {
                    factors[columns + k * NB + near] = row > k ? l : a[0];
                    factors[columns + (k + 1) * NB + near] = row > k + 1 ? m : rest;
                }
                float far_l = quotient(b[0], by), far_m = quotient(b[1] - far_l * u[1], by_second);
                if (far < NB) {
                    factors[columns + k * NB + far] = far_l;
                    factors[columns + (k + 1) * NB + far] = far_m;
                }
                [[unroll]] for (uint p = 2; p < STEP; ++p) b[p - 2] = b[p] - far_l * u[p] - far_m * v[p];
            } else {
                [[unroll]] for (uint p = 0; p < BESIDE; ++p) {
                    uint at = from + STEP + half_set * BESIDE + p;
                    float s = SHUFFLE != 0 ? subgroupShuffle(b[p], k + half_set * STEP) : exchange[at];
                    float t = SHUFFLE != 0 ? subgroupShuffle(b[p], k + 1 + half_set * STEP) : exchange[at + WORDS];
                    b[p] -= l * s + m * (t - factor * s);
                }
            }
            [[unroll]] for (uint p = 2; p < STEP; ++p) a[p - 2] = a[p] - l * u[p] - m * v[p];
        }
        if (set > 0 && set < SETS) {
            [[unroll]] for (uint q = 0; q < BESIDE / 4; ++q) {
                vec4 own = vec4(b[4 * q], b[4 * q + 1], b[4 * q + 2], b[4 * q + 3]);
                if (beside + 4 * q < NB) block[near * LINE + beside / 4 + q] = own;
            }
        }
        barrier();
        uint across = (NB - base - STEP) / 4;
        if (gl_LocalInvocationID.x < across * across * 4 / TILE) {
            uint y = base + STEP + gl_LocalInvocationID.x / across * TILE;
            uint x = (base + STEP) / 4 + gl_LocalInvocationID.x % across;
            vec4 sums[TILE];
            [[unroll]] for (uint r = 0; r < TILE; ++r) sums[r] = block[(y + r) * LINE + x];
            [[unroll]] for (uint k = 0; k < STEP; ++k) {
                vec4 u = block[(base + k) * LINE + x];
                [[unroll]] for (uint r = 0; r < TILE; ++r) sums[r] -= factors[columns + k * NB + y + r] * u;
            }
            [[unroll]] for (uint r = 0; r < TILE; ++r) block[(y + r) * LINE + x] = sums[r];
        }
        barrier();
    }
    store(NB - STEP, gl_LocalInvocationID.x, LANES);
}
