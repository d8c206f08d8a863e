#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    uint sum = 0;
    bool go = true;
    for (uint a = 0; a < 8; a++) {
        uint part = 0;
        for (uint c = 0; c < 8; c++) {
            part += c != a && c * 3 <= x[i] % 20 ? c + a : 0;
        }
        sum += go && (x[i] >> a & 1) == 1 ? part : 0;
        go = go && sum <= 60;
    }
    y[i] = sum;
}
