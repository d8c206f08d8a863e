#version 460
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_GOOGLE_include_directive : require
// Q8_0 as in llama.cpp: a scale and 32 signed bytes.
struct Block { float16_t d; int8_t qs[32]; };
layout(set = 0, binding = 0, std430) readonly buffer W { Block blocks[]; };
#include "quantised.glsl"

float block_product(uint block, uint column) {
    float sum = 0;
    for (uint i = 0; i < 32; ++i) {
        sum += float(int(blocks[block].qs[i])) * x[column + i];
    }
    return float(blocks[block].d) * sum;
}
