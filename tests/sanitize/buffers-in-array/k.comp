#version 460
layout(local_size_x = 64) in;
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 0) readonly buffer Part { uint v[]; } parts[3];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    y[i] = parts[0].v[i] + parts[gl_WorkGroupID.x % 3].v[i];
}
