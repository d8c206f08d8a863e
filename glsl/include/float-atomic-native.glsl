// Float addition to a word of a buffer by the device's own atomic operation.
#extension GL_EXT_shader_atomic_float : require
#include "reals.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Sums { float at[]; };

void atomic_add(Sums sums, uint index, float value) { atomicAdd(sums.at[index], value); }
