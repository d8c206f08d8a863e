#version 460
layout(local_size_x = 64) in;
layout(binding = 0, std430, row_major) readonly buffer X { mat3 x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    mat3 a = x[i];
    mat3 c = x[i ^ 1];
    float sum = 0;
    for (uint k = 0; k < 3; k++) {
        sum += a[0][k] * c[2][k];
    }
    y[i] = sum + dot(a[0], cross(a[1], a[2]));
}
