// Eigenvector: every invocation reads the maximum from global memory.
// Mapping: one invocation an element; work-groups folded into y.
// Source: the similarity post, kernelComputeEigenVector_v0.
#version 460
#pragma dtypes f32
#include "eigenvector.glsl"

void main() {
    uint i = index();
    if (i < n) e.at[i] *= s.at[i] / maximum.at[0];
}
