#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
struct Pair { uint used; uint unused; };
shared Pair pairs[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    Pair pair;
    pair.used = x[i];
    pairs[l] = pair;
    barrier();
    Pair other = pairs[63 - l];
    y[i] = other.used;
}
