#version 460
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
void main() {
    uint low = 0;
    uint high = 0;
    for (uint i = 0; i < x.length(); i++) {
        const uint value = x[i] >> 6;
        low += value;
        high += low < value ? 1 : 0;
    }
    y[0] = low;
    y[1] = high;
}
