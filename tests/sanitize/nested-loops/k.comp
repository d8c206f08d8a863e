#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    uint sum = 0;
    for (uint a = 0; a < 8; a++) {
        if ((x[i] >> a & 1) == 0) {
            continue;
        }
        for (uint c = 0; c < 8; c++) {
            if (c == a) {
                continue;
            }
            if (c * 3 > x[i] % 20) {
                break;
            }
            sum += c + a;
        }
        if (sum > 60) {
            break;
        }
    }
    y[i] = sum;
}
