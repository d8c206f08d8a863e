// 16-byte loads and stores of f32 vectors and matrices. A quad is four neighbouring elements, the first at a multiple of
// four, so that it lies on a multiple of 16 bytes. The last one of a vector may reach into the red zone behind its buffer.
#extension GL_EXT_control_flow_attributes : require
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Quads { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer QuadsInPlace { vec4 at[]; };

const uint GROUP = gl_WorkGroupSize.x;
