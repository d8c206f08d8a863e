#version 460
layout(local_size_x = 64) in;
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 0) readonly buffer Part { uint v[]; } parts[3];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint g = gl_WorkGroupID.x % 3;
    uint other = parts[0].v[i];
    if (g == 1) {
        other = parts[1].v[i];
    } else if (g == 2) {
        other = parts[2].v[i];
    }
    y[i] = parts[0].v[i] + other;
}
