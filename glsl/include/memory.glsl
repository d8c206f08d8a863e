// Traffic to a working set, a power of two of 16-byte elements, by work-groups of a power of two of invocations.
//
// Neighbouring invocations touch neighbouring elements; every element is touched equally often. What is touched again
// was last touched a whole working set ago, so that caches help only if they hold it.
//
// Working sets that a cache may hold: few work-groups (a power of two) of many steps. In each step they touch pieces
// next to one another, so that together they go through the working set, pass after pass. With each pass groups change
// places, by a number that shares no factor with theirs: a core does not find in its own cache what it touched before.
//
// Larger ones (STREAM): many groups of few steps, each at a place of its own. Devices start groups in their order, so
// that they too go through the working set pass after pass, but whichever core is free goes on.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint STREAM = 0;
layout(constant_id = 2) const uint UNROLL = 8;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Source { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Target { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Sums { uint at[]; };

// Work-groups are numbered along x, then along y.
uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;

// The element that step j of this invocation touches.
uint place(uint j, uint count, uint mask) {
    if (STREAM != 0) {
        uint piece = group * count + j;
        return (piece * gl_WorkGroupSize.x + gl_LocalInvocationID.x) & mask;
    }
    uint groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    uint steps = max((mask + 1) / (gl_WorkGroupSize.x * groups), 1u);  // of a pass
    uint pass = j >> findMSB(steps);
    uint piece = (j & (steps - 1)) * groups + ((group + 37u * pass) & (groups - 1));
    return (piece * gl_WorkGroupSize.x + gl_LocalInvocationID.x) & mask;
}
