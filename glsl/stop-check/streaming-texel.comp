// Stop criterion at the speed of memory: every load is one of 16 bytes with several in flight; only a sub-group that finds a
// pair too far apart says so atomically, and the last work-group to arrive writes the flag. Nothing has to be set first.
// Here quads are read through texel views, for software devices.
// Mapping: a work-group goes over `count` quads an invocation.
// Source: ours.
#version 460
#pragma dtypes f32
#define TEXEL
#include "stop-check-streaming.glsl"
