// Traffic to a working set: a power of two of 16-byte elements, gone over by work-groups of a power of two of invocations.
//
// Neighbouring invocations touch neighbouring elements, and in each step the work-groups (a power of two of them) touch
// pieces next to one another, so that together they stream through the working set and begin again where it ends. With
// each pass groups change places, by a number that shares no factor with theirs: a core does not find in its own cache
// what it touched in the pass before. So every piece is touched once a pass, and what is near is what the caches hold.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
const uint UNROLL = 8;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Source { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Target { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Sums { uint at[]; };

// The element that step j of this invocation touches.
uint place(uint j, uint mask) {
    uint groups = gl_NumWorkGroups.x;
    uint steps = max((mask + 1) / (gl_WorkGroupSize.x * groups), 1u);  // of a pass
    uint pass = j >> findMSB(steps);
    uint piece = (j & (steps - 1)) * groups + ((gl_WorkGroupID.x + 37u * pass) & (groups - 1));
    return (piece * gl_WorkGroupSize.x + gl_LocalInvocationID.x) & mask;
}
