#version 460
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    y[gl_GlobalInvocationID.x] = 3 * x[gl_WorkGroupID.x] + 1;
}
