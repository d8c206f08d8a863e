// max = the largest of the n elements of x, none of them negative; max starts as zero. The bits of floats that are not
// negative order as unsigned integers do, so an integer atomic, which every device has, takes their maximum.
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Input x;
    Words max_bits;
    uint n;
};

uint index() { return folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }

// The element of an invocation; zero, the least, beyond the end.
float element() { return index() < n ? x.at[index()] : 0.0; }
