#version 450
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
shared uint s[256];
void main() {
    uint l = gl_LocalInvocationIndex;
    s[l] = x[gl_GlobalInvocationID.x];
    barrier();
    uint left = l >= 16 ? s[l - 16] : 0;
    y[gl_GlobalInvocationID.x] = s[l] + left;
}
