// stop-check with the neighbour from the next lane. Elements are numbered by sub-group and lane, so that the next lane
// holds the next element however the driver maps invocations to lanes. Sub-groups are full.
#include "stop-check.glsl"

// Whether the element of this invocation is near its neighbour; true beyond the end.
bool near_neighbour() {
    uint first = folded_group() * gl_WorkGroupSize.x;
    uint i = first + gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    float own = i < n ? s.at[i] : 0.0;
    float next = subgroupShuffleDown(own, 1);
    // Shuffling down does not wrap: what the last lane gets is undefined, and the last element's neighbour is s[0].
    bool elsewhere = gl_SubgroupInvocationID == gl_SubgroupSize - 1 || i == n - 1;
    if (elsewhere && i < n) next = s.at[(i + 1) % n];
    return i >= n || abs(own - next) < eps;
}
