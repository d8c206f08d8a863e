#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[64];
void bump(inout uint value, out uint fives) {
    fives = value % 5;
    if (fives == 0) {
        return;
    }
    value = value * 2 + 1;
}
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[i];
    uint fives = 0;
    bump(s[l], fives);
    barrier();
    y[i] = s[l ^ 2] + fives;
}
