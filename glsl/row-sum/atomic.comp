// Row sums: every invocation adds its element of A to the sum of its row in global memory.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Float addition by the device's own atomic operation.
// Source: the similarity post, kernelSumAcrossRows_v0.
#version 460
#pragma dtypes f32
#include "float-atomic-native.glsl"
#include "row-sum-atomic.glsl"
