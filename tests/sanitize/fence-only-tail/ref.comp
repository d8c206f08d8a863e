#version 450
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    float sum = 0;
    for (uint i = 0; i < 64; i++) sum += x[i];
    y[0] = sum;
}
