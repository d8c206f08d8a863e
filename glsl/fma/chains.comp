// Arithmetic rate: 16 sequences x ← x·a + b an invocation, CHAINS at a time, each step of a sequence waiting for the one
// before. Few at a time show the latency of the unit, many its rate.
// Mapping: one invocation takes its sequences from X in a rotated order, so that no two lanes compute the same.
// X holds 64 start values; the host goes through the same sequences and compares the sums of their ends.
// Sequences are grouped in scalars or vectors. What keeps halves from being computed in pairs (NVIDIA 580 does half as
// many otherwise): a and b that a compiler knows to be one value for both, so they come as words of two. Vectors that a
// loop carries are taken apart and put together in each iteration, so iterations of halves are long. a and b are arguments
// because operands out of constant memory are read beside registers: without, f64 is 7 % slower there.
// Source: the method of every peak-rate benchmark; sequences and their check are ours.
#version 460
#pragma dtypes f32 f64 f16 i32
#pragma kernel chains
#pragma kernel chains-scalar SCALAR
#pragma kernel chains-vec4 VEC4
#extension GL_EXT_control_flow_attributes : require
#define ARITHMETIC
#include "dtype.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint CHAINS = 16;
layout(constant_id = 2) const uint STEPS = 2048;
layout(constant_id = 3) const uint UNROLL = 16;
const uint STARTS = 64;

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Given { T at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Sums { ACC at[]; };
// A and B are the bits of a and b: of one f64, of one number of 32 bits, or of two halves.
layout(push_constant, scalar) uniform Arguments {
    Given X;
    Sums Y;
    uint A, A_HIGH, B, B_HIGH;
};

#if defined(DTYPE_F16)
#define pair_of(low, high) unpackFloat2x16(low)
#elif defined(DTYPE_F64)
#define pair_of(low, high) T2(packDouble2x32(uvec2(low, high)))
#elif defined(DTYPE_I32)
#define pair_of(low, high) T2(low)
#else
#define pair_of(low, high) T2(uintBitsToFloat(low))
#endif

#if defined(SCALAR)
#define V T
#define spread(pair) (pair).x
const uint WIDTH = 1;
ACC total(V x) { return ACC(x); }
#elif defined(VEC4)
#define V T4
#define spread(pair) T4(pair, pair)
const uint WIDTH = 4;
ACC total(V x) { return ACC(x.x) + ACC(x.y) + ACC(x.z) + ACC(x.w); }
#else
#define V T2
#define spread(pair) (pair)
const uint WIDTH = 2;
ACC total(V x) { return ACC(x.x) + ACC(x.y); }
#endif

T start(uint sequence) { return X.at[(gl_GlobalInvocationID.x + sequence) % STARTS]; }

V starts(uint first) {
#if defined(SCALAR)
    return start(first);
#elif defined(VEC4)
    return V(start(first), start(first + 1), start(first + 2), start(first + 3));
#else
    return V(start(first), start(first + 1));
#endif
}

void main() {
    V a = spread(pair_of(A, A_HIGH)), b = spread(pair_of(B, B_HIGH));
    ACC sum = ACC(0);
    for (uint first = 0; first < 16; first += CHAINS) {
        V x[CHAINS / WIDTH];
        [[unroll]] for (uint c = 0; c < CHAINS / WIDTH; ++c) x[c] = starts(first + WIDTH * c);
        for (uint i = 0; i < STEPS / UNROLL; ++i) {
            [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
                [[unroll]] for (uint c = 0; c < CHAINS / WIDTH; ++c) x[c] = x[c] * a + b;
            }
        }
        [[unroll]] for (uint c = 0; c < CHAINS / WIDTH; ++c) sum += total(x[c]);
    }
    Y.at[gl_GlobalInvocationID.x] = sum;
}
