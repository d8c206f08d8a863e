// r = b − A·x in f64, and whether x will do: its normwise backward error max|r| / (max row sum of |A| · max|x| + max|b|)
// (Rigal and Gaches) against a target. A step that has not at least halved the error of the one before ends the refinement.
// Mapping: a sub-group has ROWS rows; the last work-group to arrive decides.
#version 460
#pragma dtypes f64
#include "lu-refine.glsl"
#include "last-group.glsl"

layout(local_size_x_id = 0) in;
#include "subgroups.glsl"

layout(constant_id = 2) const uint ROWS = 4;

layout(push_constant, scalar) uniform Arguments {
    Doubles A;
    Doubles b;
    Doubles x;
    Doubles r;
    Doubles sums;    // of the magnitudes in each row of A
    Doubles state;
    Indices ended;
    Indices steps;   // refinements that have been made, less 1 before the first decision
    Arrivals arrivals;
    uint n;
    float target;
};

shared double largest[SUBGROUPS * 4];

double subgroup_sum(double value) {
    [[unroll]] for (uint step = 1; step < SUBGROUP; step *= 2) value += subgroupShuffleXor(value, step);
    return value;
}
double subgroup_max(double value) {
    [[unroll]] for (uint step = 1; step < SUBGROUP; step *= 2) value = max(value, subgroupShuffleXor(value, step));
    return value;
}

// The exponent is looked at as an integer, because a Vulkan compiler may assume that floats are finite.
bool finite(double value) { return (unpackDouble2x32(value).y & 0x7ff00000u) != 0x7ff00000u; }

// The magnitude; infinity for what is no number, which a maximum would lose.
double magnitude(double value) { return finite(value) ? abs(value) : packDouble2x32(uvec2(0, 0x7ff00000u)); }

// The power of two that brings a positive value to between 1 and 2.
double scale_of(double value) {
    uint exponent = clamp(unpackDouble2x32(value).y >> 20, 2u, 2044u);
    return packDouble2x32(uvec2(0, (2046 - exponent) << 20));
}

void decide(double r_norm, double a_norm, double x_norm, double b_norm) {
    double error = r_norm / (a_norm * x_norm + b_norm), before = state.at[ERROR];
    if (ended.at[0] != GOES_ON) return;
    uint step = steps.at[0] + 1;
    steps.at[0] = step;
    state.at[ERROR] = error;
    state.at[SCALE] = scale_of(r_norm);
    if (!finite(r_norm) || !finite(a_norm * x_norm)) ended.at[0] = OVERFLOWED;
    else if (r_norm == 0.0 || error <= double(target)) ended.at[0] = CONVERGED;
    else if (step > 0 && error > 0.5 * before) ended.at[0] = STAGNATED;
}

void main() {
    uint own = place() / SUBGROUP, lane = place() % SUBGROUP;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint top = (group * SUBGROUPS + own) * ROWS;
    double products[ROWS], magnitudes[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS; ++i) products[i] = magnitudes[i] = 0.0;
    for (uint column = lane; column < n; column += SUBGROUP) {
        double factor = x.at[column];
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            double a = A.at[min(top + i, n - 1) * n + column];
            products[i] += a * factor;
            magnitudes[i] += abs(a);
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS; ++i) {
        double product = subgroup_sum(products[i]), sum = subgroup_sum(magnitudes[i]);
        if (lane == 0 && top + i < n) {
            r.at[top + i] = b.at[top + i] - product;
            sums.at[top + i] = sum;
        }
    }
    if (!last_to_arrive(arrivals)) return;
    double norms[4];
    [[unroll]] for (uint k = 0; k < 4; ++k) norms[k] = 0.0;
    for (uint i = place(); i < n; i += gl_WorkGroupSize.x) {
        norms[0] = max(norms[0], magnitude(r.at[i]));
        norms[1] = max(norms[1], sums.at[i]);
        norms[2] = max(norms[2], magnitude(x.at[i]));
        norms[3] = max(norms[3], abs(b.at[i]));
    }
    [[unroll]] for (uint k = 0; k < 4; ++k) {
        double norm = subgroup_max(norms[k]);
        if (lane == 0) largest[own * 4 + k] = norm;
    }
    barrier();
    if (place() != 0) return;
    for (uint other = 1; other < SUBGROUPS; ++other) {
        [[unroll]] for (uint k = 0; k < 4; ++k) largest[k] = max(largest[k], largest[other * 4 + k]);
    }
    decide(largest[0], largest[1], largest[2], largest[3]);
}
