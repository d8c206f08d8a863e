// Arithmetic rate: 16 sequences x ← x·a + b an invocation, CHAINS/2 vectors of two at a time, each step of a sequence
// waiting for the one before. Few at a time show the latency of the unit, many its rate.
// Mapping: one invocation takes its sequences from X in a rotated order, so that no two lanes compute the same.
// X holds a, b and 64 start values; the host goes through the same sequences and compares the sums of their ends.
// Source: the method of every peak-rate benchmark; sequences and their check are ours.
#version 460
#pragma dtypes f32 f64 f16 i32
#extension GL_EXT_control_flow_attributes : require
#define ARITHMETIC
#include "dtype.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint CHAINS = 16;
layout(constant_id = 2) const uint STEPS = 2048;
const uint UNROLL = 16;
const uint STARTS = 64;

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Given { T at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Sums { ACC at[]; };
layout(push_constant, scalar) uniform Arguments {
    Given X;
    Sums Y;
};

T start(uint sequence) { return X.at[2 + (gl_GlobalInvocationID.x + sequence) % STARTS]; }

void main() {
    T2 a = T2(X.at[0]), b = T2(X.at[1]);
    ACC sum = ACC(0);
    for (uint first = 0; first < 16; first += CHAINS) {
        T2 x[CHAINS / 2];
        [[unroll]] for (uint c = 0; c < CHAINS / 2; ++c) x[c] = T2(start(first + 2 * c), start(first + 2 * c + 1));
        for (uint i = 0; i < STEPS / UNROLL; ++i) {
            [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
                [[unroll]] for (uint c = 0; c < CHAINS / 2; ++c) x[c] = x[c] * a + b;
            }
        }
        [[unroll]] for (uint c = 0; c < CHAINS / 2; ++c) sum += ACC(x[c].x) + ACC(x[c].y);
    }
    Y.at[gl_GlobalInvocationID.x] = sum;
}
