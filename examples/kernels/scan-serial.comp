#version 460
// Inclusive prefix sums by one invocation: slow, but obviously right.
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer Values { uint values[]; };
layout(set = 0, binding = 1) writeonly buffer Scan { uint scan[]; };
layout(push_constant) uniform Arguments { uint N; };

void main() {
    uint sum = 0;
    for (uint i = 0; i < N; ++i) {
        sum += values[i];
        scan[i] = sum;
    }
}
