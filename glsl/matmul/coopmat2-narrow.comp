#version 460
#pragma vulkan 1.3
#pragma dtypes f16
#pragma layouts nn nt tn
#define NARROW_SUM
#include "matmul-coopmat2.glsl"
