#version 460
#pragma dtypes f16 bf16
#pragma layouts nn nt tn
#include "matmul-direct.glsl"
