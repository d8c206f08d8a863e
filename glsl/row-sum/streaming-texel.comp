// Row sums at the speed of memory: every load is one of 16 bytes, and an invocation has
// several in flight. A row is added up by one team, so there is nothing to add atomically and nothing to zero first.
// Here quads are read through texel views, for software devices.
// Mapping: see rows.glsl; teams are numbered along x, folded into y.
// Source: ours.
#version 460
#pragma dtypes f32
#define TEXEL
#include "row-sum-streaming.glsl"
