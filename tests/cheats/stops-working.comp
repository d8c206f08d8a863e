#version 450
#extension GL_GOOGLE_include_directive : require
#include "cheat.glsl"

// Works in its first three runs.
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= N) return;
    if (earlier_runs(i) < 3u) B[i] = twice(A[i]);
}
