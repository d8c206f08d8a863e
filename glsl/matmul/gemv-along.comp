// A product with few rows or columns, whose other operand's rows lie along K: dot products.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32 i8
#include "matmul-gemv-along.glsl"
