// `tiled` over parts of K: see matmul-parts.glsl.
#version 460
#pragma dtypes f32 f64 i32
#pragma layouts nn nt tn
#define IN_PARTS
#include "matmul-tiled.glsl"
