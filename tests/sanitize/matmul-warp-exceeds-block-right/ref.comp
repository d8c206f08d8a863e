#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer D { float d[]; };
layout(push_constant) uniform Arguments { uint M, N, K; };
void main() {
    const uint row = gl_WorkGroupID.y;
    for (uint column = gl_LocalInvocationIndex; column < N; column += 64) {
        float sum = 0;
        for (uint k = 0; k < K; k++) {
            sum += a[row * K + k] * b[k * N + column];
        }
        d[row * N + column] = sum;
    }
}
