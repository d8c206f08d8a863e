#version 460
layout(local_size_x = 16) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
void main() {
    uint count = 0;
    for (uint i = 0; i < x.length(); i++) {
        count += x[i] == gl_LocalInvocationIndex ? 1 : 0;
    }
    y[gl_LocalInvocationIndex] = count;
}
