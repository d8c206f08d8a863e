// Rate of dot products of four bytes: 16 sequences x ← x·a + b an invocation, CHAINS at a time, each step of a sequence
// waiting for the one before; x is taken as four signed bytes.
// Mapping: one invocation takes its sequences from X in a rotated order, as in chains.comp.
// Source: the method of chains.comp; OpSDot (VK_KHR_shader_integer_dot_product).
#version 460
#pragma dtypes i8
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_integer_dot_product : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint CHAINS = 16;
layout(constant_id = 2) const uint STEPS = 2048;
layout(constant_id = 3) const uint UNROLL = 16;
const uint STARTS = 64;

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Given { int at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Sums { int at[]; };
layout(push_constant, scalar) uniform Arguments {
    Given X;
    Sums Y;
    uint A, A_HIGH, B, B_HIGH;  // as in chains.comp
};

void main() {
    const int a = int(A), b = int(B);
    int sum = 0;
    for (uint first = 0; first < 16; first += CHAINS) {
        int x[CHAINS];
        [[unroll]] for (uint c = 0; c < CHAINS; ++c) x[c] = X.at[(gl_GlobalInvocationID.x + first + c) % STARTS];
        for (uint i = 0; i < STEPS / UNROLL; ++i) {
            [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
                [[unroll]] for (uint c = 0; c < CHAINS; ++c) x[c] = dotPacked4x8EXT(x[c], a) + b;
            }
        }
        [[unroll]] for (uint c = 0; c < CHAINS; ++c) sum += x[c];
    }
    Y.at[gl_GlobalInvocationID.x] = sum;
}
