#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words { uint v[]; };
layout(push_constant) uniform Arguments { Words x; };
layout(binding = 0) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    y[i] = x.v[i] + x.v[255 - i];
}
