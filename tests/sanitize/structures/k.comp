#version 460
layout(local_size_x = 64) in;
struct Item { uint tag; vec3 place; float weight; uint counts[3]; };
layout(binding = 0, std430) readonly buffer X { Item x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
shared Item s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[i];
    barrier();
    const Item item = s[63 - l];
    y[i] = item.place.z + item.weight + float(item.counts[2] % 1000 + item.tag % 1000);
}
