#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Arguments { uvec3 offset; uint rows[2][4]; };
layout(std140, binding = 2) uniform Scales { uvec2 scale[4]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    y[i] = x[i] * scale[i % 4].y + rows[1][2] + offset.z;
}
