// Many rounds of the similarity transform of a small matrix in one work-group: vectors and ratios stay in shared memory,
// and a round costs one barrier. A is read again in each, from the core's own cache where it fits.
// Mapping: a sub-group has ROWS rows at a time, a lane some of their columns.
// Source: ours; power iteration with the bounds of Collatz and Wielandt.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes f32
#include "quads.glsl"
#include "subgroups.glsl"

layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint ROUNDS = 1;     // most rounds of a dispatch
layout(constant_id = 4) const uint PADDED = 4;     // n rounded up to a multiple of 4
layout(constant_id = 5) const uint NEIGHBOUR = 0;  // whether neighbours must agree, not the smallest and the largest

layout(push_constant, scalar) uniform Arguments {
    Input A;
    InPlace v;
    InPlace d;  // the vector, before and after
    InPlace lambda;
    Words stop;
    Words rounds;
    float eps;
    uint n;
    uint most;  // rounds
};

// Of two rounds: a sub-group may be in the next one while another looks at the ratios of this one.
shared vec4 x[2 * PADDED / 4];
shared float s[2 * PADDED];

#define X(round, i) x[((round) & 1) * (PADDED / 4) + (i) / 4][(i) & 3]
#define S(round, i) s[((round) & 1) * PADDED + (i)]

void main() {
    uint count = rounds.at[0];
    if (stop.at[0] != 0 || count > most) return;
    float high = lambda.at[0];
    bool agree = false;
    for (uint i = place(); i < n; i += GROUP) X(0, i) = d.at[i];
    // Of buffers too: the results overwrite what every invocation has read of the state.
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);

    uint round = 0;
    for (; round < ROUNDS; ++round) {
        float scale = 1.0 / high;
        for (uint first = gl_SubgroupID * ROWS; first < n; first += SUBGROUPS * ROWS) {
            float sums[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = 0;
            if ((n & 3) == 0) {
                for (uint q = gl_SubgroupInvocationID; q < n / 4; q += SUBGROUP) {
                    vec4 own = x[(round & 1) * (PADDED / 4) + q];
                    // Rows beyond the last are the last again; their sums are nobody's.
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        sums[r] += dot(Quads(A).at[min(first + r, n - 1) * (n / 4) + q], own);
                    }
                }
            } else {
                for (uint c = gl_SubgroupInvocationID; c < n; c += SUBGROUP) {
                    float own = X(round, c);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += A.at[min(first + r, n - 1) * n + c] * own;
                }
            }
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                float sum = subgroup_sum(sums[r]);
                uint row = first + r;
                if (gl_SubgroupInvocationID == r && row < n) {
                    S(round, row) = sum / X(round, row);
                    X(round + 1, row) = sum * scale;
                }
            }
        }
        barrier();

        // Every sub-group looks at all ratios, so that no second barrier has to tell them.
        float low = S(round, 0);
        high = 0;
        bool near = true;
        for (uint i = gl_SubgroupInvocationID; i < n; i += SUBGROUP) {
            float own = S(round, i);
            low = min(low, own);
            high = max(high, own);
            near = near && own > 0;
            if (NEIGHBOUR != 0) near = near && abs(own - S(round, i + 1 < n ? i + 1 : 0)) < eps;
        }
        high = subgroup_max(high);
        // Each lane holds its own smallest ratio against the largest of all. With the smallest of all in one more
        // reduction an H100 took twice the time for a round, product included.
        agree = subgroupAll(near && (NEIGHBOUR != 0 || high - low < eps * high));
        if (!agree) ++count;
        if (agree || count > most) break;
    }

    bool done = agree || count > most;
    uint last = done ? round : ROUNDS - 1;
    for (uint i = place(); i < n; i += GROUP) {
        float own = X(last, i);
        v.at[i] = own * (S(last, i) / high);
        d.at[i] = done ? own : X(last + 1, i);
    }
    if (gl_LocalInvocationIndex == 0) {
        lambda.at[0] = high;
        rounds.at[0] = count;
        stop.at[0] = agree ? 1 : 0;
    }
}
