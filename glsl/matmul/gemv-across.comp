// A product with few rows or columns, whose other operand's rows lie across K: sums of columns.
// A lane owns the columns of OWN pieces, of UNROLL rows at a time, and sums each vector's products with them up. ACROSS
// lanes are neighbours along a row, the others of the work-group go down.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32 i8
#pragma kernel gemv-across
#pragma kernel gemv-texel-across TEXEL f32
#include "matmul-gemv.glsl"
layout(constant_id = 8) const uint ACROSS = 8;  // at most as many as a sub-group has
layout(constant_id = 9) const uint OWN = 1;     // pieces of a row that a lane owns, ACROSS pieces apart
const uint COLUMNS = ACROSS * WIDTH_X * OWN;
const uint DOWN = LANES / ACROSS;
#define COUNT (COLUMNS * VECTORS)
shared ACC partial[SUBGROUPS * COUNT];
#define PLACE_OF(i) uvec2(own_block() * COLUMNS + (i) % COLUMNS, (i) / COLUMNS)
#include "matmul-gemv-finish.glsl"

void main() {
    uint first = own_block() * COLUMNS;
    if (first >= LINES) return;  // uniform in the group
    uint lane = place(), column[OWN];
    [[unroll]] for (uint o = 0; o < OWN; ++o) {
        column[o] = min(first + (o * ACROSS + lane % ACROSS) * WIDTH_X, (LINES - 1) / WIDTH_X * WIDTH_X);
    }

    ACC sums[OWN * WIDTH_X * VECTORS];
    [[unroll]] for (uint i = 0; i < OWN * WIDTH_X * VECTORS; ++i) sums[i] = ACC(0);
    uint k = (gl_WorkGroupID.y * STEPS * DOWN + lane / ACROSS) * UNROLL;
    for (uint step = 0; step < STEPS; ++step, k += DOWN * UNROLL) {
        uvec4 x[UNROLL * OWN], y[PIECES_OF_Y(UNROLL)];
        uint first_row = min(k, K - 1) * LINES;
        [[unroll]] for (uint j = 0; j < UNROLL; ++j) {
            uint row = first_row + (k + j < K ? j * LINES : 0);
            [[unroll]] for (uint o = 0; o < OWN; ++o) x[j * OWN + o] = READ_X(row + column[o], LINES * K);
        }
        FETCH_Y(y, 0, k, UNROLL)
        [[unroll]] for (uint j = 0; j < UNROLL; ++j) {
            ACC own[OWN * WIDTH_X];
            [[unroll]] for (uint i = 0; i < OWN * WIDTH_X; ++i) own[i] = component(x[j * OWN + i / WIDTH_X], i % WIDTH_X);
            [[unroll]] for (uint v = 0; v < VECTORS; ++v) {
                ACC factor = OF_Y(y, 0, UNROLL, j, v);
                [[unroll]] for (uint i = 0; i < OWN * WIDTH_X; ++i) sums[v * (OWN * WIDTH_X) + i] += own[i] * factor;
            }
        }
    }

    [[unroll]] for (uint i = 0; i < OWN * WIDTH_X * VECTORS; ++i) {
        ACC sum = sums[i];
        [[unroll]] for (uint step = ACROSS; step < SUBGROUP; step *= 2) sum += subgroupShuffleXor(sum, step);
        uint v = i / (OWN * WIDTH_X), o = i / WIDTH_X % OWN;
        uint to = v * COLUMNS + (o * ACROSS + lane % ACROSS) * WIDTH_X + i % WIDTH_X;
        if (gl_SubgroupInvocationID < ACROSS) partial[gl_SubgroupID * COUNT + to] = sum;
    }
    finish();
}
