// Row sums: every invocation adds its element of A to the sum of its row in global memory.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Float addition by compare-exchange: for devices without shaderBufferFloat32AtomicAdd.
// Source: the similarity post, kernelSumAcrossRows_v0.
#version 460
#pragma dtypes f32
#include "float-atomic-cas.glsl"
#include "row-sum-atomic.glsl"
