#version 460
#pragma dtypes f16
#define NARROW_SUM
#include "matmul-coopmat.glsl"
