// Rate of the matrix units with the wide accumulator: f16 and bf16 into f32, 8-bit integers into 32 bits.
// Mapping: see matrix-unit.glsl.
// Source: GL_KHR_cooperative_matrix; the method is that of fma/chains.
#version 460
#pragma dtypes f16 bf16 i8 u8
#if defined(DTYPE_F16)
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define IN float16_t
#define OUT float
#define WIDE float
#elif defined(DTYPE_BF16)
#extension GL_EXT_bfloat16 : require
#define IN bfloat16_t
#define OUT float
#define WIDE float
#elif defined(DTYPE_I8)
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define IN int8_t
#define OUT int
#define WIDE int
#elif defined(DTYPE_U8)
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define IN uint8_t
#define OUT uint
#define WIDE int
#endif
#include "matrix-unit.glsl"
