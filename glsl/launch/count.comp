// A dispatch that must see what the one before wrote: what a launch behind a barrier costs.
// Mapping: one invocation counts.
// Source: none; the usual method.
#version 460
#pragma dtypes i32
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(local_size_x = 1) in;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Counter { uint at[]; };
layout(push_constant, scalar) uniform Arguments {
    Counter C;
    uint ADD;
};

void main() { C.at[0] += ADD; }
