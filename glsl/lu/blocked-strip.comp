// Brings a diagonal block of 64×64 elements up to date and factorises it, together with a strip: columns of U beside it or
// rows of L below it. A work-group has one strip, and each of them factorises the block for itself, so that a block of
// columns is one dependent dispatch: nobody waits for a block that another factorised. The strip takes part in elimination
// as if it belonged to the block, which is what substitution is.
//
// Elimination goes in steps of 8 columns. A step's diagonal block is in the registers of 8 lanes, a row each, of
// several sub-groups at once, so that none waits for another: the first has the rows below too, others more rows or the columns
// beside, and each finds the rows of the pivots, two at a time, by shuffles. Then all update what is left of the block,
// and idle sub-groups store it a step later. The registers of the diagonal block move with the pivot, so that a loop over pivots
// remains one: code that runs once is code to be fetched.
// Mapping: x is the strip; an invocation has 4×4 of ROWS×COLUMNS elements.
#version 460
#pragma dtypes f32
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // ROWS·COLUMNS / 16
layout(constant_id = 1) const uint ROWS = 64;     // of the block and a strip of L
layout(constant_id = 2) const uint COLUMNS = 64;  // of the block and a strip of U
layout(constant_id = 3) const uint SET = 32;      // the size of a sub-group, 8 at least
layout(constant_id = 4) const uint FAR = 1;       // X whether the first set has more rows

layout(push_constant, scalar) uniform Arguments {
    Reals W;
    Reals P_LAST, Q_LAST;  // that block and strip are updated by
    Reals P, Q;            // of the outer block they are in
    Reals L, U;            // n×n
    Status status;
    uint n, stride;
    uint first;  // row and column of the block
    uint plane;  // of its first column in P, of its first row in Q
    uint last;   // the first of the columns of P_LAST, rows of Q_LAST
    uint depth;  // how many of them
};

const uint NB = 64;
const uint STEP = 8;              // columns that are factorised at a time
const uint UNROLL = 8;            // products of an element between which no loop is
const uint LANES = gl_WorkGroupSize.x;
const uint ACROSS = COLUMNS / 4;  // quads of a row
const uint LINE = ACROSS + 1;     // of them from one row to the next
const uint SLAB = 32;             // of the last outer block
const uint QUADS_OF_P = SLAB * ROWS / 4;
const uint QUADS_OF_Q = SLAB * ACROSS;
const uint LOADS_OF_P = (QUADS_OF_P + LANES - 1) / LANES;
const uint LOADS_OF_Q = (QUADS_OF_Q + LANES - 1) / LANES;
const uint PARTS = SET / STEP;    // of a sub-group, that have the diagonal block of a step
const uint BESIDE = 8;            // columns beside it that a part has
const uint COLUMN_SETS = (COLUMNS - STEP + PARTS * BESIDE - 1) / (PARTS * BESIDE);
const uint ROW_SETS = (ROWS + SET - 1) / SET;
const uint SETS = COLUMN_SETS + (ROW_SETS > 1 + FAR ? ROW_SETS - FAR : 1);  // with the diagonal block

shared vec4 block[ROWS * LINE];            // before: slabs of columns of P_LAST, then of rows of Q_LAST
shared vec4 factors[2 * STEP * ROWS / 4];  // [k][row]: the columns of a step, when done; of even and of odd steps

float factor_at(uint at) { return factors[at / 4][at % 4]; }

// Where rows and columns of the group are in the matrix.
uint line(uint at) { return first + (at < NB ? at : NB + gl_WorkGroupID.x * (max(ROWS, COLUMNS) - NB) + at - NB); }

// Subtracts columns of P_LAST times rows of Q_LAST, and leaves the block and its strip in shared memory.
void update() {
    uint lane = gl_LocalInvocationID.x, y = lane / ACROSS, x = lane % ACROSS;
    vec4 sums[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = Quads(W).at[(line(4 * y + r) * stride + line(4 * x)) / 4];
    vec4 next_p[LOADS_OF_P], next_q[LOADS_OF_Q];
    // Where lanes are more than quads, the last one is moved twice.
#define FETCH(k)                                                                                            \
    [[unroll]] for (uint i = 0; i < LOADS_OF_P; ++i) {                                                      \
        uint at = min(i * LANES + lane, QUADS_OF_P - 1);                                                    \
        next_p[i] = Quads(P_LAST).at[((last + (k) + at / (ROWS / 4)) * stride + line(at % (ROWS / 4) * 4)) / 4]; \
    }                                                                                                       \
    [[unroll]] for (uint i = 0; i < LOADS_OF_Q; ++i) {                                                      \
        uint at = min(i * LANES + lane, QUADS_OF_Q - 1);                                                    \
        next_q[i] = Quads(Q_LAST).at[((last + (k) + at / ACROSS) * stride + line(at % ACROSS * 4)) / 4];    \
    }
    if (depth > 0) {
        FETCH(0)
    }
    for (uint k = 0; k < depth; k += SLAB) {
        barrier();
        [[unroll]] for (uint i = 0; i < LOADS_OF_P; ++i) block[min(i * LANES + lane, QUADS_OF_P - 1)] = next_p[i];
        [[unroll]] for (uint i = 0; i < LOADS_OF_Q; ++i) {
            block[QUADS_OF_P + min(i * LANES + lane, QUADS_OF_Q - 1)] = next_q[i];
        }
        barrier();
        if (k + SLAB < depth) {
            FETCH(k + SLAB)
        }
        for (uint s = 0; s < SLAB; s += UNROLL) {
            [[unroll]] for (uint t = 0; t < UNROLL; ++t) {
                vec4 l = block[(s + t) * (ROWS / 4) + y], u = block[QUADS_OF_P + (s + t) * ACROSS + x];
                [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= l[r] * u;
            }
        }
    }
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) block[(4 * y + r) * LINE + x] = sums[r];
    barrier();
}

// Stores the rows and columns of a step, by `lanes` invocations of which this is number `lane`: those of the strip, and in the
// first group of U those of the block.
void store(uint base, uint lane, uint lanes) {
    bool whole = ROWS == NB && gl_WorkGroupID.x == 0;
    uint columns = base / STEP % 2 * STEP * ROWS;
    if (ROWS > NB || whole) {
        uint begin = whole ? base : NB;
        for (uint at = lane; at < STEP * ROWS; at += lanes) {
            uint k = at / ROWS, row = at % ROWS;
            if (row >= begin) P.at[(plane + base + k) * stride + line(row)] = factor_at(columns + at);
        }
        for (uint at = lane; at < STEP * ROWS; at += lanes) {
            uint row = at / STEP, column = base + at % STEP;
            if (row < begin) continue;
            float value = factor_at(columns + at % STEP * ROWS + row);
            if (row < base + STEP) Q.at[(plane + row) * stride + first + column] = value;
            if (line(row) >= n || first + column >= n) continue;
            uint to = line(row) * n + first + column;
            if (row > column) L.at[to] = value;
            else U.at[to] = value;
            if (row != column) continue;
            L.at[to] = 1.0;
            // Nothing lies below the last pivot.
            if (first + row + 1 < n) check_pivot(status, value, first + row);
        }
    }
    if (COLUMNS > NB || whole) {
        for (uint at = lane; at < STEP * COLUMNS; at += lanes) {
            uint row = base + at / COLUMNS, column = at % COLUMNS;
            if (column < (whole ? base + STEP : NB)) continue;
            float value = block[row * LINE + column / 4][column % 4];
            Q.at[(plane + row) * stride + line(column)] = value;
            if (first + row < n && line(column) < n) U.at[(first + row) * n + line(column)] = value;
        }
    }
}

void main() {
    update();
    uint lane = gl_LocalInvocationID.x % SET, set = gl_LocalInvocationID.x / SET;
    uint i = lane % STEP, part = lane / STEP;
    bool below = set == 0 || set > COLUMN_SETS;  // it has rows, others columns
    for (uint base = 0; base < NB; base += STEP) {
        uint columns = base / STEP % 2 * STEP * ROWS;
        if (set >= SETS && base > 0) store(base - STEP, gl_LocalInvocationID.x - SETS * SET, LANES - SETS * SET);
        if (set < SETS) {
            // In the first set a lane has two rows; in the others a row of the diagonal block, and one below or columns beside it.
            uint row = set == 0 ? lane : i;
            uint near = min(base + row, ROWS - 1), far = base + SET + (set == 0 ? 0 : set - COLUMN_SETS - 1 + FAR) * SET + lane;
            uint beside = base + STEP + ((set - 1) * PARTS + part) * BESIDE;
            float a[STEP], b[STEP];
            [[unroll]] for (uint q = 0; q < STEP / 4; ++q) {
                vec4 own = block[near * LINE + base / 4 + q];
                vec4 other = below ? block[min(far, ROWS - 1) * LINE + base / 4 + q]
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
                if (set == 0 && base + lane < ROWS) {
                    uint at = columns + k * ROWS + near;
                    factors[at / 4][at % 4] = row > k ? l : a[0];
                    factors[at / 4 + ROWS / 4][at % 4] = row > k + 1 ? m : rest;
                }
                if (set == 0 && FAR == 0) {
                } else if (below) {
                    float far_l = quotient(b[0], by), far_m = quotient(b[1] - far_l * u[1], by_second);
                    uint at = columns + k * ROWS + far;
                    if (far < ROWS) {
                        factors[at / 4][at % 4] = far_l;
                        factors[at / 4 + ROWS / 4][at % 4] = far_m;
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
            if (!below) {
                [[unroll]] for (uint q = 0; q < BESIDE / 4; ++q) {
                    vec4 own = vec4(b[4 * q], b[4 * q + 1], b[4 * q + 2], b[4 * q + 3]);
                    if (beside + 4 * q < COLUMNS) block[near * LINE + beside / 4 + q] = own;
                }
            }
        }
        barrier();
        uint across = (COLUMNS - base - STEP) / 4;
        if (gl_LocalInvocationID.x < across * ((ROWS - base - STEP) / 4)) {
            uint y = (base + STEP) / 4 + gl_LocalInvocationID.x / across;
            uint x = (base + STEP) / 4 + gl_LocalInvocationID.x % across;
            vec4 sums[4];
            [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = block[(4 * y + r) * LINE + x];
            for (uint k = 0; k < STEP; k += UNROLL) {
                [[unroll]] for (uint t = 0; t < UNROLL; ++t) {
                    vec4 l = factors[(columns + (k + t) * ROWS) / 4 + y], u = block[(base + k + t) * LINE + x];
                    [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= l[r] * u;
                }
            }
            [[unroll]] for (uint r = 0; r < 4; ++r) block[(4 * y + r) * LINE + x] = sums[r];
        }
        barrier();
    }
    store(NB - STEP, gl_LocalInvocationID.x, LANES);
}
