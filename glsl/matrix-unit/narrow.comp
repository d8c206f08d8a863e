// Rate of the matrix units with an accumulator as narrow as the operands.
// Mapping: see matrix-unit.glsl.
// Source: GL_KHR_cooperative_matrix; the method is that of fma/chains.
#version 460
#pragma dtypes f16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define IN float16_t
#define OUT float16_t
#define WIDE float
#include "matrix-unit.glsl"
