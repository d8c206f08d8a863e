// gemv-across through texel views, for software devices.
#version 460
#pragma dtypes f32
#define TEXEL
#include "matmul-gemv-across.glsl"
