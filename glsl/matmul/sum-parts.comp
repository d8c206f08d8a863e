// C as the sum of parts, each of which is the product of a part of K: see matmul-parts.glsl. The parts lie one after the
// other, each from a multiple of four elements on.
//
// Mapping: a work-group has ACROSS quads of C and DOWN invocations for each, of which the first adds up parts 0, DOWN,
// 2·DOWN, …, the second 1, DOWN + 1, …, and so on; then halves of them are added to one another. So the order of a sum
// depends on the constants and arguments alone, and many loads are on their way at once.
#version 460
#extension GL_EXT_control_flow_attributes : require
#pragma dtypes f32 f64 f16 bf16 i32 i8
#include "dtype.glsl"
#include "fold.glsl"

#if defined(DTYPE_F64)
#define QUAD dvec4
#elif defined(DTYPE_I32) || defined(DTYPE_I8)
#define QUAD ivec4
#else
#define QUAD vec4
#endif

layout(local_size_x_id = 0) in;  // ACROSS·DOWN
layout(constant_id = 2) const uint DOWN = 1;  // a power of two

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Parts { QUAD at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { OUT at[]; };
layout(push_constant, scalar) uniform Arguments {
    Parts SUMS;
    Result C;
    uint COUNT;  // elements of C
    uint PARTS;
};

const uint ACROSS = gl_WorkGroupSize.x / DOWN;
const uint AT_ONCE = 4;  // loads that are on their way together

shared QUAD partial[gl_WorkGroupSize.x];

void main() {
    uint quads = (COUNT + 3) / 4;
    uint group = gl_WorkGroupID.x + folded_group_y() * gl_NumWorkGroups.x;
    uint lane = gl_LocalInvocationID.x, own = lane / ACROSS;
    uint quad = group * ACROSS + lane % ACROSS;
    uint from = min(quad, quads - 1);

    QUAD sum = QUAD(0);
    for (uint first = own; first < PARTS; first += AT_ONCE * DOWN) {
        QUAD next[AT_ONCE];
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            uint part = first + i * DOWN;
            next[i] = part < PARTS ? SUMS.at[min(part, PARTS - 1) * quads + from] : QUAD(0);
        }
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) sum += next[i];
    }

    if (DOWN > 1) {
        partial[lane] = sum;
        for (uint half_of = DOWN / 2; half_of > 0; half_of /= 2) {
            barrier();
            if (own < half_of) partial[lane] += partial[lane + half_of * ACROSS];
        }
        sum = partial[lane];
    }
    if (own > 0 || quad >= quads) return;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint to = quad * 4 + i;
        if (to < COUNT) C.at[to] = store(sum[i]);
    }
}
