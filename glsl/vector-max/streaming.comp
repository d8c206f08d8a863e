// Maximum of a vector at the speed of memory: every load is one of 16 bytes with several in flight; a work-group takes
// one atomic maximum, and the last of them to arrive writes the result. Nothing has to be zeroed first.
// Here quads are read by address.
// Mapping: a work-group goes over `count` pieces that follow one another, an invocation to a quad.
// Source: ours.
#version 460
#pragma dtypes f32
#include "vector-max-streaming.glsl"
