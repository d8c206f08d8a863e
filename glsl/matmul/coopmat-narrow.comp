#version 460
#pragma dtypes f16
#pragma layouts nn nt tn
#define NARROW_SUM
#include "matmul-coopmat.glsl"
