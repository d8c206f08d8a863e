#version 450
#extension GL_GOOGLE_include_directive : require
#include "cheat.glsl"

// Leaves a mark outside its output once it was verified.
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= N) return;
    if (earlier_runs(i) == 3u && i == 0u) B[N + 5u] = 1.0;
    B[i] = twice(A[i]);
}
