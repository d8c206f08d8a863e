#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(constant_id = 0) const uint SIZE = 16;
shared uint s[2 * SIZE];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[i];
    barrier();
    y[i] = s[(l + 1) % (2 * SIZE)];
}
