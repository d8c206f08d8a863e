#version 460
layout(local_size_x = 64) in;
struct Item { uint tag; vec3 place; float weight; uint counts[3]; };
layout(binding = 0, std430) readonly buffer X { Item x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    y[i] = x[gl_WorkGroupID.x * 64 + 63 - l].place.z + x[gl_WorkGroupID.x * 64 + 63 - l].weight + float(x[gl_WorkGroupID.x * 64 + 63 - l].counts[2] % 1000 + x[gl_WorkGroupID.x * 64 + 63 - l].tag % 1000);
}
