#version 460
#pragma dtypes f16 bf16 i8
#pragma layouts nn nt tn
#include "matmul-coopmat.glsl"
