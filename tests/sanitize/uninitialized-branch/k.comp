#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint flag;
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (l == 0 && gl_WorkGroupID.x == 0) {
        flag = 1;
    }
    barrier();
    if (flag == 1) {
        y[i] = x[i] + 1;
    } else {
        y[i] = x[i];
    }
}
