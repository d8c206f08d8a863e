// Eigenvector at the speed of memory: every load and store is one of 16 bytes.
// Here quads are read by address.
// Mapping: an invocation has UNROLL quads, a work-group's width apart; work-groups folded into y.
// Source: ours.
#version 460
#pragma dtypes f32
#include "eigenvector-streaming.glsl"
