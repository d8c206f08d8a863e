#version 450
#extension GL_GOOGLE_include_directive : require
#include "cheat.glsl"

// Does nothing where the output holds the answer.
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= N) return;
    S[i] = 0u;
    if (B[i] != 2.0 * A[i]) B[i] = twice(A[i]);
}
