#version 460
layout(local_size_x = 64) in;
layout(binding = 0, std430, row_major) readonly buffer X { mat3 x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    const mat3 m = transpose(x[i]) * x[i ^ 1];
    y[i] = m[2][0] + determinant(x[i]);
}
