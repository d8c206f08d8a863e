// How the passes that add up sums of blocks, or of parts, go about it.
//
// Mapping: a work-group has ACROSS quads of C and DOWN invocations for each, of which the first adds up sums 0, DOWN, 2·DOWN, …, the
// second 1, DOWN + 1, …, and so on; then halves of them are added to one another. So the order of a sum depends on the constants and
// arguments alone, and many loads are on their way at once.
#extension GL_EXT_control_flow_attributes : require
#include "dtype.glsl"
#include "fold.glsl"

layout(local_size_x_id = 0) in;  // ACROSS·DOWN
layout(constant_id = 2) const uint DOWN = 1;  // a power of two

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Sums { ACC4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { OUT at[]; };

const uint ACROSS = gl_WorkGroupSize.x / DOWN;
const uint AT_ONCE = 4;  // loads that are on their way together

shared ACC4 partial[gl_WorkGroupSize.x];

// The sum of what the invocations of a quad have, for the first of them. All invocations of the work-group come by.
ACC4 of_all(ACC4 sum) {
    uint lane = gl_LocalInvocationID.x;
    if (DOWN == 1) return sum;
    partial[lane] = sum;
    for (uint half_of = DOWN / 2; half_of > 0; half_of /= 2) {
        barrier();
        if (lane / ACROSS < half_of) partial[lane] += partial[lane + half_of * ACROSS];
    }
    return partial[lane];
}
