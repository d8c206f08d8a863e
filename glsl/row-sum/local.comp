// Row sums: sub-groups leave their sums in shared memory; after a barrier one sub-group adds those up, and one lane
// adds the total to the sum of the row: one addition in global memory a work-group.
// Mapping: x is the column of A, y (folded into z) its row; a work-group lies in one row.
// Float addition by the device's own atomic operation.
// Source: the similarity post, kernelSumAcrossRows_v2.
#version 460
#pragma dtypes f32
#include "float-atomic-native.glsl"
#include "row-sum-local.glsl"
