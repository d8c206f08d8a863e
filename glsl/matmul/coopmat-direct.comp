#version 460
#pragma dtypes f16
#pragma layouts nn nt tn
#include "matmul-direct.glsl"
