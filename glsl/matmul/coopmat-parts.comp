// `coopmat` over parts of K: see matmul-parts.glsl.
#version 460
#pragma dtypes f16 bf16 i8
#pragma layouts nn nt tn
#define IN_PARTS
#include "matmul-coopmat.glsl"
