#version 460
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    uint a[128];
    uint c[128];
    for (uint i = 0; i < 128; i++) {
        a[i] = x[gl_WorkGroupID.x * 128 + i];
    }
    for (uint step_ = 0; step_ < 8; step_++) {
        for (uint i = 0; i < 128; i++) {
            c[i] = (a[(i + 127) % 128] + 2 * a[i] + a[(i + 1) % 128]) / 4;
        }
        a = c;
    }
    for (uint i = 0; i < 128; i++) {
        y[gl_WorkGroupID.x * 128 + i] = a[i];
    }
}
