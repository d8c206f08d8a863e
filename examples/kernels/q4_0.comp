#version 460
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_GOOGLE_include_directive : require
// Q4_0 as in llama.cpp: a scale and 32 four-bit values with an offset of 8; byte i has value i in its low half and
// value i + 16 in its high half.
struct Block { float16_t d; uint8_t qs[16]; };
layout(set = 0, binding = 0, std430) readonly buffer W { Block blocks[]; };
#include "quantised.glsl"

float block_product(uint block, uint column) {
    float sum = 0;
    for (uint i = 0; i < 16; ++i) {
        const uint both = uint(blocks[block].qs[i]);
        sum += (float(both & 15) - 8) * x[column + i] + (float(both >> 4) - 8) * x[column + i + 16];
    }
    return float(blocks[block].d) * sum;
}
