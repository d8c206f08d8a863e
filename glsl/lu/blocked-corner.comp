// Brings a diagonal block of NB×NB elements up to date and factorises it, alone or together with a strip: columns of U beside
// it, or rows of L below it. A work-group has one strip, and each factorises the block for itself, so that a block of
// columns is one dependent dispatch: no strip waits for a block that others factorised. The strip takes part in the elimination
// as if it belonged to the block; that is what substitution is.
//
// Elimination goes in steps of 8 columns. Each invocation factorises the 8×8 elements on the diagonal in its registers, and
// with them a row below or a column beside, so that nobody needs what another has computed. Then all update the rest,
// while invocations that have neither row nor column store the step before.
// Mapping: x is the strip. Where there is none, a group stores every gl_NumWorkGroups.x-th step.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // an invocation for 4×4 elements, and 64 more than ROWS + COLUMNS at least
layout(constant_id = 1) const uint NB = 64;
layout(constant_id = 2) const uint ROWS = 64;     // of the block and a strip of L
layout(constant_id = 3) const uint COLUMNS = 64;  // of the block and a strip of U

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

const uint STEP = 8;              // columns that are factorised at a time
const uint UNROLL = 8;            // products of an element between which no loop is
const uint LANES = gl_WorkGroupSize.x;
const uint ACROSS = COLUMNS / 4;  // quads of a row
const uint LINE = ACROSS + 1;     // of them from one row to the next
const uint TILES = ROWS / 4 * ACROSS;
const uint SLAB = NB / 2;         // columns of P_LAST that are in shared memory at a time
const uint QUADS_OF_P = SLAB * ROWS / 4;
const uint QUADS_OF_Q = SLAB * ACROSS;
const uint LOADS_OF_P = (QUADS_OF_P + LANES - 1) / LANES;
const uint LOADS_OF_Q = (QUADS_OF_Q + LANES - 1) / LANES;
const uint BUSY = (ROWS + COLUMNS - 2 * STEP + 31) / 32 * 32;  // invocations with a row or a column

shared vec4 block[ROWS * LINE];            // before: slabs of columns of P_LAST, then of rows of Q_LAST
shared vec4 factors[2 * STEP * ROWS / 4];  // [k][row]: the columns of a step, when done; of even and of odd steps

float factor_at(uint at) { return factors[at / 4][at % 4]; }

// Where rows and columns of the group are in the matrix.
uint line(uint at) { return first + at + (at < NB ? 0 : gl_WorkGroupID.x * (max(ROWS, COLUMNS) - NB)); }

// Subtracts columns of P_LAST times rows of Q_LAST, and leaves the block and its strip in shared memory.
void update() {
    uint lane = gl_LocalInvocationID.x, tile = min(lane, TILES - 1), y = tile / ACROSS, x = tile % ACROSS;
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
    if (lane < TILES) {
        [[unroll]] for (uint r = 0; r < 4; ++r) block[(4 * y + r) * LINE + x] = sums[r];
    }
    barrier();
}

// Factorises the 8×8 elements on the diagonal, and eliminates one of the rows below or columns beside them: number `at`.
void factorise(uint base, uint at) {
    uint columns = base / STEP % 2 * STEP * ROWS, rows = ROWS - base - STEP;
    // Behind the last step of a block nothing is left but what is on the diagonal.
    if (at > 0 && at >= rows + COLUMNS - base - STEP) return;
    bool below = at < rows;
    uint row = base + STEP + at, column = base + STEP + at - rows;
    float d[STEP * STEP], own[STEP];
    [[unroll]] for (uint r = 0; r < STEP; ++r) {
        [[unroll]] for (uint q = 0; q < STEP / 4; ++q) {
            vec4 quad = block[(base + r) * LINE + base / 4 + q];
            [[unroll]] for (uint c = 0; c < 4; ++c) d[r * STEP + 4 * q + c] = quad[c];
        }
    }
    if (below) {
        [[unroll]] for (uint q = 0; q < STEP / 4; ++q) {
            vec4 quad = block[row * LINE + base / 4 + q];
            [[unroll]] for (uint c = 0; c < 4; ++c) own[4 * q + c] = quad[c];
        }
    } else {
        [[unroll]] for (uint k = 0; k < STEP; ++k) own[k] = block[(base + k) * LINE + column / 4][column % 4];
    }
    // Loops with constant bounds, or a driver leaves registers in memory.
    [[unroll]] for (uint p = 0; p < STEP; ++p) {
        Divisor by = divisor(d[p * STEP + p]);
        own[p] = below ? quotient(own[p], by) : own[p];
        [[unroll]] for (uint r = 0; r < STEP; ++r) {
            if (r <= p) continue;
            float factor = quotient(d[r * STEP + p], by);
            d[r * STEP + p] = factor;
            [[unroll]] for (uint c = 0; c < STEP; ++c) {
                if (c > p) d[r * STEP + c] -= factor * d[p * STEP + c];
            }
            own[r] -= own[p] * (below ? d[p * STEP + r] : factor);
        }
    }
    if (below) {
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            uint to = columns + k * ROWS + row;
            factors[to / 4][to % 4] = own[k];
        }
    } else {
        [[unroll]] for (uint k = 0; k < STEP; ++k) block[(base + k) * LINE + column / 4][column % 4] = own[k];
    }
    // For those who store the block.
    if (ROWS == COLUMNS && at == 0) {
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            [[unroll]] for (uint q = 0; q < STEP / 4; ++q) {
                vec4 quad;
                [[unroll]] for (uint c = 0; c < 4; ++c) quad[c] = d[(4 * q + c) * STEP + k];
                factors[(columns + k * ROWS + base) / 4 + q] = quad;
            }
        }
    }
}

// Updates what is right of and below a step.
void update_rest(uint base) {
    uint columns = base / STEP % 2 * STEP * ROWS, begin = (base + STEP) / 4, across = ACROSS - begin;
    uint lane = gl_LocalInvocationID.x, y = begin + lane / max(across, 1), x = begin + lane % max(across, 1);
    if (lane >= across * (ROWS / 4 - begin)) return;
    vec4 sums[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] = block[(4 * y + r) * LINE + x];
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        vec4 l = factors[(columns + k * ROWS) / 4 + y], u = block[(base + k) * LINE + x];
        [[unroll]] for (uint r = 0; r < 4; ++r) sums[r] -= l[r] * u;
    }
    [[unroll]] for (uint r = 0; r < 4; ++r) block[(4 * y + r) * LINE + x] = sums[r];
}

// Stores rows of L of a strip, in the columns of a step; by `lanes` invocations of which this is number `lane`.
void store_lower(uint base, uint lane, uint lanes) {
    const uint EDGE = ROWS - NB;
    uint columns = base / STEP % 2 * STEP * ROWS;
    for (uint at = lane; at < STEP * EDGE; at += lanes) {
        uint k = at / EDGE, row = NB + at % EDGE;
        P.at[(plane + base + k) * stride + line(row)] = factor_at(columns + k * ROWS + row);
    }
    for (uint at = lane; at < STEP * EDGE; at += lanes) {
        uint row = NB + at / STEP, column = first + base + at % STEP;
        float value = factor_at(columns + at % STEP * ROWS + row);
        if (line(row) < n && column < n) L.at[line(row) * n + column] = value;
    }
}

// Stores columns of U of a strip, in the rows of a step.
void store_upper(uint base, uint lane, uint lanes) {
    const uint EDGE = COLUMNS - NB;
    for (uint at = lane; at < STEP * EDGE; at += lanes) {
        uint row = base + at / EDGE, column = NB + at % EDGE;
        float value = block[row * LINE + column / 4][column % 4];
        Q.at[(plane + row) * stride + line(column)] = value;
        if (first + row < n && line(column) < n) U.at[(first + row) * n + line(column)] = value;
    }
}

// Stores the rows and columns of the block that a step has made.
void store_block(uint base, uint lane, uint lanes) {
    if (base / STEP % gl_NumWorkGroups.x != gl_WorkGroupID.x) return;
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

void store(uint base, uint lane, uint lanes) {
    if (ROWS > NB) store_lower(base, lane, lanes);
    else if (COLUMNS > NB) store_upper(base, lane, lanes);
    else store_block(base, lane, lanes);
}

void main() {
    update();
    uint lane = gl_LocalInvocationID.x;
    for (uint base = 0; base < NB; base += STEP) {
        if (lane < BUSY) factorise(base, lane);
        else if (base > 0) store(base - STEP, lane - BUSY, LANES - BUSY);
        barrier();
        update_rest(base);
        barrier();
    }
    store(NB - STEP, lane, LANES);
}
