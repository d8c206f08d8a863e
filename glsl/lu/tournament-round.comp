// A round of tournament pivoting for an inner block of 32 columns: each work-group factorises up to 4·LANES of the candidates with
// partial pivoting, all 32 columns in registers, and the rows that were its pivots are the candidates of the next round, as they
// were. The pivots of the last round, which is one work-group's, are the block's: it leaves the factors of their 32 rows.
// Mapping: x is the group of candidates.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
const uint ROWS = 4;
const uint COLUMNS = 32;
const uint MICRO = 8;
layout(constant_id = 1) const uint SUBGROUP = 32;
layout(constant_id = 2) const uint ROUND = 0;  // 0: the candidates are all rows
layout(constant_id = 3) const uint LAST = 0;
layout(constant_id = 4) const uint SELECT = 0;

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

vec4 x[COLUMNS];
#define X(r, d) x[d][r]
#include "lu-pivots.glsl"

// A barrier after which the group sees what it wrote to buffers.
void barrier_of_memory() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// Where an invocation's rows are in a column of the candidates; beyond the end, the last.
uint quad(uint column, uint begin, uint lane) {
    return (start + column * from_line + min(begin + lane * 4, count - 4)) / 4;
}

// Element j of a quad, without an index that would put registers into memory.
float element(vec4 quad, uint j) { return j < 2 ? (j == 0 ? quad.x : quad.y) : (j == 2 ? quad.z : quad.w); }

// Brings the columns behind those from `m` on up to date with them: the pivots' rows of them, from which U is solved for,
// then all.
void follow(uint lane, uint m) {
    for (uint i = 0; i < MICRO; ++i) {
        uint place = pivots[m + i];
        if (owner(place) != lane) continue;
        [[unroll]] for (uint d = 0; d < COLUMNS; ++d) {
            float value = element(x[d], place % 4);
            if (d >= m && d < m + MICRO) lower[i * LINE + d - m] = value;
            if (d >= m + MICRO) UPPER(m + i, d) = value;
        }
    }
    barrier();
    uint own = m + MICRO + lane;
    if (own < COLUMNS) {
        float u[MICRO];
        [[unroll]] for (uint i = 0; i < MICRO; ++i) {
            u[i] = UPPER(m + i, own);
            [[unroll]] for (uint k = 0; k < MICRO; ++k) if (k < i) u[i] -= lower[i * LINE + k] * u[k];
            UPPER(m + i, own) = u[i];
        }
    }
    barrier();
    // The factors go round once.
    for (uint k = 0; k < MICRO; ++k) {
        [[unroll]] for (uint d = 0; d < COLUMNS; d += 4) {
            vec4 u = upper[(m + k) * (INNER / 4) + d / 4];
            [[unroll]] for (uint j = 0; j < 4; ++j) if (d >= m + MICRO) x[d + j] -= x[m] * u[j];
        }
        vec4 factor = x[m];
        [[unroll]] for (uint d = 1; d < MICRO; ++d) x[m + d - 1] = x[m + d];
        x[m + MICRO - 1] = factor;
    }
}

// Factorises the columns from `m` on.
void micro(uint lane, uint m, uint begin) {
    factorise(lane, m, m);
    if (LAST != 0 && begin + lane * 4 < count) {
        [[unroll]] for (uint k = 0; k < MICRO; ++k) Quads(from).at[quad(m + k, begin, lane)] = x[m + k];
    }
    barrier();
    if (m + MICRO < COLUMNS) follow(lane, m);
}

void main() {
    uint lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint begin = gl_WorkGroupID.x * LANES * ROWS;
    done = uvec2(begin + lane * 4 < count ? 0 : 15, 0);
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) x[c] = Quads(from).at[quad(c, begin, lane)];
    // Each for itself, so that the places of columns among the registers are constants.
    micro(lane, 0, begin);
    micro(lane, MICRO, begin);
    micro(lane, 2 * MICRO, begin);
    micro(lane, 3 * MICRO, begin);
    if (LAST != 0) {
        barrier_of_memory();
        for (uint at = lane; at < INNER * INNER; at += LANES) {
            uint i = at / INNER, k = at % INNER;
            to.at[at] = k < i ? from.at[start + k * from_line + pivots[i]] : UPPER(i, k);
        }
        if (lane < INNER && first + lane < n) check_pivot(status, UPPER(lane, lane), first + lane);
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
