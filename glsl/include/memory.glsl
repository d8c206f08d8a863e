// Traffic to a working set: a power of two of 16-byte elements, gone over by work-groups of a power of two of invocations.
//
// Neighbouring invocations touch neighbouring elements. Each work-group goes over COUNT (a power of two) consecutive
// pieces, beginning at a piece that differs from that of the groups near it, and again from the start where the working
// set ends. So every piece is touched equally often, groups that run side by side are at different places, and what a
// small cache holds of a large working set is what chance leaves there.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
const uint UNROLL = 8;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Source { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Target { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Sums { uint at[]; };

// The element that step j of this invocation touches.
uint place(uint j, uint count, uint mask) {
    uint piece = gl_WorkGroupID.x * count + ((j + gl_WorkGroupID.x * 37u) & (count - 1));
    return (piece * gl_WorkGroupSize.x + gl_LocalInvocationID.x) & mask;
}
