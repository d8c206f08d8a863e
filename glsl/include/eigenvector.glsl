// e[i] *= s[i] / max: one round of the eigenvector. s and e have n elements, max one.
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Input s;
    Input maximum;
    InPlace e;
    uint n;
};

uint index() { return folded_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
