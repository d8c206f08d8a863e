#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { double x[]; };
layout(binding = 1) writeonly buffer Y { double y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    y[i] = sqrt(abs(x[i ^ 3])) / 3.0lf;
}
