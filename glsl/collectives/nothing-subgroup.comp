// The chain without an operation: what the loop itself costs, to be subtracted from the others.
// Mapping: an invocation a lane, in one work-group of two sub-groups.
// Source: none; the zero of the scale.
#version 460
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return value; }
