#version 460
layout(local_size_x = 16, local_size_y = 8) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Arguments { uint N; };
void main() {
    for (uint half_ = 0; half_ < 16; half_ += 8) {
        const uint row = gl_WorkGroupID.y * 16 + gl_LocalInvocationID.y + half_;
        y[row * N + gl_GlobalInvocationID.x] = x[gl_GlobalInvocationID.x * N + row];
    }
}
