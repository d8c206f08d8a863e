// `split` over parts of K: see matmul-parts.glsl.
#version 460
#pragma dtypes f32
#define IN_PARTS
#include "matmul-split.glsl"
