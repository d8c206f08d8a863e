#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Arguments { uint N; };
void main() {
    if (gl_LocalInvocationIndex == 0) {
        uint least = 0xffffffffu;
        uint greatest = 0;
        for (uint i = gl_WorkGroupID.x * 64; i < min(N, gl_WorkGroupID.x * 64 + 64); i++) {
            least = min(least, x[i]);
            greatest = max(greatest, x[i]);
        }
        y[2 * gl_WorkGroupID.x] = least;
        y[2 * gl_WorkGroupID.x + 1] = greatest;
    }
}
