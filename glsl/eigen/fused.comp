// A round of the similarity transform in one dispatch that reads A once and writes no matrix: the row sums of D⁻¹·A·D are
// (A·x)ᵢ/xᵢ with x the diagonal of D. The last work-group to arrive finds their minimum and maximum, decides, and writes
// the result; once it has decided to stop, dispatches that follow end at once.
// With TEXEL, for software devices, A and the vector are read through texel views.
// Mapping: see rows.glsl; teams are numbered along x, folded into y.
// Source: ours; power iteration with the bounds of Collatz and Wielandt.
#version 460
#pragma dtypes f32
#pragma kernel fused
#pragma kernel fused-texel TEXEL
#extension GL_KHR_shader_subgroup_vote : require
#include "quads.glsl"
#include "subgroups.glsl"
#include "last-group.glsl"

layout(constant_id = 5) const uint NEIGHBOUR = 0;  // whether neighbours must agree, not the smallest and the largest

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Ratios { float at[]; };

layout(push_constant, scalar) uniform Arguments {
    Input A;
    Input x;   // four copies of the vector: copy h begins with element h
    InPlace y;  // the same of the next vector
    Ratios s;
    InPlace v;
    InPlace d;
    InPlace lambda;
    Words stop;
    Words rounds;
    Arrivals arrivals;
    float eps;
    uint n;
    uint most;  // rounds
};

// Elements from one copy of a vector to the next.
uint stride() { return (n + 3) & ~3u; }

#define A_ONE(i) A.at[i]
#define X_ONE(i) x.at[i]
#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer A4;
layout(binding = 1) uniform samplerBuffer x4;
#define A_QUAD(i) texelFetch(A4, int(i))
#define X_QUAD(head, i) texelFetch(x4, int(head * (stride() / 4) + i))
#else
#define A_QUAD(i) Quads(A).at[i]
#define X_QUAD(head, i) Quads(x).at[head * (stride() / 4) + i]
#endif
#include "rows.glsl"

shared float low_of[SUBGROUPS];
shared float high_of[SUBGROUPS];
shared uint near_of[SUBGROUPS];

void main() {
    // Nothing writes these until all work-groups have arrived: the whole dispatch goes on, or none of it.
    uint count = rounds.at[0];
    if (stop.at[0] != 0 || count > most) return;
    float scale = 1.0 / lambda.at[0];

    sum_rows(n);
    if (own_row < n) {
        s.at[own_row] = own_sum / x.at[own_row];
        // By the eigenvalue of the round before, which changes no ratio, so that nothing grows or shrinks.
        float next = own_sum * scale;
        [[unroll]] for (uint h = 0; h < 4; ++h) {
            if (own_row >= h) y.at[h * stride() + own_row - h] = next;
        }
    }
    if (!last_to_arrive(arrivals)) return;

    // A ratio that is not a number is near to nothing.
    float low = s.at[0], high = 0;
    bool near = true;
    for (uint i = place(); i < n; i += GROUP) {
        float own = s.at[i];
        low = min(low, own);
        high = max(high, own);
        near = near && own > 0;
        if (NEIGHBOUR != 0) near = near && abs(own - s.at[i + 1 < n ? i + 1 : 0]) < eps;
    }
    low = subgroup_min(low);
    high = subgroup_max(high);
    near = subgroupAll(near);
    if (subgroupElect()) {
        low_of[gl_SubgroupID] = low;
        high_of[gl_SubgroupID] = high;
        near_of[gl_SubgroupID] = near ? 1 : 0;
    }
    barrier();
    for (uint i = 0; i < SUBGROUPS; ++i) {
        low = min(low, low_of[i]);
        high = max(high, high_of[i]);
        near = near && near_of[i] != 0;
    }

    bool agree = near && (NEIGHBOUR != 0 || high - low < eps * high);
    if (!agree) ++count;
    if (gl_LocalInvocationIndex == 0) {
        lambda.at[0] = high;
        rounds.at[0] = count;
        stop.at[0] = agree ? 1 : 0;
    }
    if (!agree && count <= most) return;
    for (uint i = place(); i < n; i += GROUP) {
        d.at[i] = x.at[i];
        v.at[i] = x.at[i] * (s.at[i] / high);
    }
}
