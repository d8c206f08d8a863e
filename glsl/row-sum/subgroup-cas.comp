// Row sums: a sub-group adds its elements up by subgroupAdd; one lane adds the result to the sum of the row.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Float addition by compare-exchange: for devices without shaderBufferFloat32AtomicAdd.
// Source: the similarity post, kernelSumAcrossRows_v1.
#version 460
#pragma dtypes f32
#include "float-atomic-cas.glsl"
#include "row-sum-subgroup.glsl"
