// f32 on matrix units for f16: see matmul-split.glsl.
#version 460
#pragma dtypes f32
#include "matmul-split.glsl"
