// Common definitions of the kernels that refine a solution of A·x = b in f64 with factors of A in f32.
#include "dtype.glsl"
#extension GL_EXT_control_flow_attributes : require

layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Doubles { double at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Indices { uint at[]; };

// How a refinement has ended; the host knows these by the same numbers.
const uint GOES_ON = 0, CONVERGED = 1, STAGNATED = 2, OVERFLOWED = 3;

// Words behind the scale of a residual, in doubles.
const uint SCALE = 0, ERROR = 1;
