// stop = 1 if every |s[i] − s[(i+1) mod n]| < eps, else 0; stop starts as one. A NaN is near to nothing: 0.
#include "reals.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Input s;
    Words stop;
    float eps;
    uint n;
};
