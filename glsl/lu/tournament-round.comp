// A round of tournament pivoting for an inner block of 32 columns: each work-group factorises up to 4·LANES of the candidates with
// partial pivoting, all 32 columns in registers, and the rows that were its pivots are the candidates of the next round, as they
// were. The pivots of the last round, which is one work-group's, are the block's: it leaves the factors of their 32 rows.
// Mapping: x is the group of candidates.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 4;
layout(constant_id = 2) const uint COLUMNS = 32;
layout(constant_id = 3) const uint MICRO = 8;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint BALLOT = 1;
layout(constant_id = 6) const uint ROUND = 0;  // 0: the candidates are all rows
layout(constant_id = 7) const uint LAST = 0;

layout(push_constant, scalar) uniform Arguments {
    Reals from;      // the candidates, column by column
    Reals to;        // those of the next round, of `to_line` in a column, or in the last round the factors of the block, 32×32
    Indices names;   // the candidates' positions, but in the first round
    Indices places;  // those of the next round
    Status status;
    uint n;
    uint first;      // row and column of the inner block
    uint from_line;  // elements from one column to the next
    uint start;      // the first element
    uint count;      // candidates
    uint to_line;
};

#include "lu-pivots.glsl"

// A barrier after which the group sees what it wrote to buffers.
void barrier_of_memory() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

uint quad(uint column, uint q, uint begin, uint lane) {
    return (start + column * from_line + min(begin + (q * LANES + lane) * 4, count - 4)) / 4;
}

void main() {
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint begin = gl_WorkGroupID.x * LANES * ROWS;
    done = 0;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) if (begin + OFFSET(r) + lane * 4 >= count) done |= 1u << r;
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        [[unroll]] for (uint q = 0; q < ROWS / 4; ++q) {
            vec4 values = Quads(from).at[quad(c, q, begin, lane)];
            [[unroll]] for (uint j = 0; j < 4; ++j) X(4 * q + j, c) = values[j];
        }
    }
    for (uint m = 0; m < INNER; m += MICRO) {
        factorise_micro(lane, m);
        if (LAST != 0) {
            [[unroll]] for (uint k = 0; k < MICRO; ++k) {
                [[unroll]] for (uint q = 0; q < ROWS / 4; ++q) {
                    vec4 values = vec4(X(4 * q, k), X(4 * q + 1, k), X(4 * q + 2, k), X(4 * q + 3, k));
                    if (begin + (q * LANES + lane) * 4 < count) Quads(from).at[quad(m + k, q, begin, lane)] = values;
                }
            }
        }
        barrier();
        if (m + MICRO < INNER) follow_micro(lane, m, INNER);
    }
    if (LAST != 0) {
        barrier_of_memory();
        for (uint at = lane; at < INNER * INNER; at += LANES) {
            uint i = at / INNER, k = at % INNER;
            to.at[at] = k < i ? from.at[start + k * from_line + pivots[i]] : upper[at];
        }
        if (lane < INNER && first + lane < n) check_pivot(status, upper[lane * LINE], first + lane);
    } else {
        for (uint at = lane; at < INNER * INNER; at += LANES) {
            uint i = at % INNER, c = at / INNER;
            to.at[c * to_line + gl_WorkGroupID.x * INNER + i] = from.at[start + c * from_line + begin + pivots[i]];
        }
    }
    for (uint i = lane; i < INNER; i += LANES) {
        uint place = begin + pivots[i];
        places.at[gl_WorkGroupID.x * INNER + i] = ROUND == 0 ? place : names.at[place];
    }
}
