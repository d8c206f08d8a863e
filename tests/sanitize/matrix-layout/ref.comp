#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 1) readonly buffer B { float16_t b[]; };
layout(binding = 2) writeonly buffer D { float d[]; };
void main() {
    for (uint at = gl_LocalInvocationIndex; at < 256; at += 32) {
        float sum = 0;
        for (uint k = 0; k < 16; k++) {
            sum += float(a[at / 16 * 16 + k]) * float(b[k * 16 + at % 16]);
        }
        d[at] = sum + float(at / 16);
    }
}
