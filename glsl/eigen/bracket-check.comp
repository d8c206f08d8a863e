// stop = 1 if (max − min) / max of the row sums is below eps, else 0; stop starts as one. Since subtraction rounds
// monotonically, that is so exactly if every max − s[i] < eps·max: no minimum has to be found first.
// Mapping: one invocation an element; work-groups folded into y; reduction as in stop-check/local.
// Source: ours; Collatz–Wielandt, min ≤ λ ≤ max for a positive matrix.
#version 460
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes f32
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Input s;
    Input maximum;
    Words stop;
    float eps;
    uint n;
};

shared uint group_stop;

void main() {
    if (gl_LocalInvocationIndex == 0) group_stop = 1;
    barrier();
    uint i = folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    float largest = maximum.at[0];
    bool all_near = subgroupAll(i >= n || largest - s.at[i] < eps * largest);
    if (subgroupElect()) atomicMin(group_stop, all_near ? 1 : 0);
    barrier();
    if (gl_LocalInvocationIndex == 0) atomicMin(stop.at[0], group_stop);
}
