// `coopmat-narrow` over parts of K, whose sums are added up in f32: see matmul-parts.glsl.
#version 460
#pragma dtypes f16
#pragma layouts nn nt tn
#define IN_PARTS
#define NARROW_SUM
#include "matmul-coopmat.glsl"
