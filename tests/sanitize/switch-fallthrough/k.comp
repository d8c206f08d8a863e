#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    uint v = 1;
    switch (x[i] % 6) {
    case 0:
        v += 10;
    case 1:
        v *= 3;
        break;
    case 2:
    case 3:
        v = 7;
    default:
        v += 100;
        break;
    case 5:
        v = 9;
    }
    y[i] = v;
}
