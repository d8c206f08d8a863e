#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    float sum = 0;
    for (uint k = 0; k < 256; k++) {
        sum += x[k];
    }
    y[gl_LocalInvocationIndex] = sum;
}
