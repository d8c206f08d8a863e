#version 450
#extension GL_GOOGLE_include_directive : require
#include "cheat.glsl"

// No cheat.
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= N) return;
    S[i] = 0u;
    B[i] = twice(A[i]);
}
