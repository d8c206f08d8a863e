// `tiled` with blocks that work-groups share evenly: see matmul-evenly.glsl.
#version 460
#pragma dtypes f32 f64 i32
#pragma layouts nn nt tn
#define EVENLY
#include "matmul-tiled.glsl"
