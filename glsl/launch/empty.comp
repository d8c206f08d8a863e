// A dispatch that does nothing: what a launch costs.
// Mapping: one invocation.
// Source: none; the usual method.
#version 460
#pragma dtypes i32

layout(local_size_x = 1) in;

void main() {}
