// Transposes a matrix of N×N, an element an invocation, without shared memory: the reference of transpose.comp.
#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) writeonly buffer B { float b[]; };
layout(push_constant) uniform Arguments { uint n; };

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (max(at.x, at.y) < n) b[at.x * n + at.y] = a[at.y * n + at.x];
}
