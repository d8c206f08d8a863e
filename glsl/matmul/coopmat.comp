#version 460
#pragma dtypes f16 bf16 i8
#include "matmul-coopmat.glsl"
