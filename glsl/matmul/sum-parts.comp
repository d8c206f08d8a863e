// C as the sum of parts, each of which is the product of a part of K: see matmul-parts.glsl. The parts lie one after the
// other, each from a multiple of four elements on.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32 i8
#include "matmul-sum.glsl"

layout(push_constant, scalar) uniform Arguments {
    Sums SUMS;
    Result C;
    uint COUNT;  // elements of C
    uint PARTS;
};

void main() {
    uint quads = (COUNT + 3) / 4;
    uint group = gl_WorkGroupID.x + folded_group_y() * gl_NumWorkGroups.x;
    uint lane = gl_LocalInvocationID.x, own = lane / ACROSS;
    uint quad = group * ACROSS + lane % ACROSS;
    uint from = min(quad, quads - 1);

    ACC4 sum = ACC4(0);
    for (uint first = own; first < PARTS; first += AT_ONCE * DOWN) {
        ACC4 next[AT_ONCE];
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            uint part = first + i * DOWN;
            next[i] = part < PARTS ? SUMS.at[min(part, PARTS - 1) * quads + from] : ACC4(0);
        }
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) sum += next[i];
    }
    sum = of_all(sum);
    if (own > 0 || quad >= quads) return;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint to = quad * 4 + i;
        if (to < COUNT) C.at[to] = store(sum[i]);
    }
}
