// The top of the f32 ladder; see matmul-tiled.glsl.
#version 460
#pragma dtypes f32 f64 i32
#pragma layouts nn nt tn
#include "matmul-tiled.glsl"
