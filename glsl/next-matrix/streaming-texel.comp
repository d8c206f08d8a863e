// Next matrix of the similarity transform at the speed of memory: every load and store of M is one of 16 bytes, and the row
// sums of the columns serve ROWS rows.
// Here quads are read through texel views, for software devices.
// Mapping: x is the quad of a row, y (folded into z) counts sets of ROWS rows four apart.
// Source: ours.
#version 460
#pragma dtypes f32
#define TEXEL
#include "next-matrix-streaming.glsl"
