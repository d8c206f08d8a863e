#version 460
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    uint sum = 0;
    for (uint i = 0; i < x.length(); i++) {
        sum += x[i];
        y[i] = sum;
    }
}
