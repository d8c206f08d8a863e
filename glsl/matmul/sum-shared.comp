// The blocks of C that several work-groups share, as the sums of what each left: see matmul-evenly.glsl.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32
#include "matmul-sum.glsl"

layout(constant_id = 1) const uint C_ALIGNED = 0;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 16;

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer ResultQuads { T4 at[]; };
layout(push_constant, scalar) uniform Arguments {
    Sums SUMS;
    Result C;
    uint M, N, K;
    uint GROUPS;  // that share all blocks
};
#include "matmul-evenly.glsl"

void main() {
    uint block = folded_group_y();
    if (block >= BLOCKS_DOWN * BLOCKS_ACROSS) return;
    uint first = group_of(block * SLABS), parts = group_of((block + 1) * SLABS - 1) - first + 1;
    if (parts == 1) return;

    uint lane = gl_LocalInvocationID.x, own = lane / ACROSS;
    uint quad = gl_WorkGroupID.x * ACROSS + lane % ACROSS;
    uvec2 at = block_at(block);
    uint row = at.x * BM + quad / (BN / 4), column = at.y * BN + quad % (BN / 4) * 4;
    bool inside = quad < BM * BN / 4 && row < M && column < N;
    // The first may have other blocks before this one.
    uint first_slot = first + (first_of(first) < block * SLABS ? GROUPS : 0);

    ACC4 sum = ACC4(0);
    if (inside) {
        for (uint part = own; part < parts; part += AT_ONCE * DOWN) {
            ACC4 next[AT_ONCE];
            [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
                uint other = part + i * DOWN;
                uint slot = other == 0 ? first_slot : first + other;
                next[i] = other < parts ? SUMS.at[slot * (BM * BN / 4) + quad] : ACC4(0);
            }
            [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) sum += next[i];
        }
    }
    sum = of_all(sum);
    if (own > 0 || !inside) return;
    uint to = row * N + column;
    if (C_ALIGNED != 0) {
        ResultQuads(C).at[to / 4] = store4(sum);
        return;
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (column + i < N) C.at[to + i] = store(sum[i]);
    }
}
