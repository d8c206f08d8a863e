#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint tile[8][8];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    tile[l / 8][l % 8] = x[i];
    barrier();
    y[i] = x[i] + tile[l / 8][l % 8 + (l < 56 ? 1 : 0)];
}
