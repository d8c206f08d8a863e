#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Vectors { uvec4 v[]; };
layout(push_constant) uniform Arguments { Vectors x; };
layout(binding = 0) writeonly buffer Y { uvec4 y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    y[i] = x.v[i];
}
