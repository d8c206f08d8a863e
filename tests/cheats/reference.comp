#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A_ { float A[]; };
layout(binding = 1) writeonly buffer B_ { float B[]; };
layout(push_constant) uniform Sizes { uint N; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < N) B[i] = 2.0 * A[i];
}
