// A product with few rows or columns, whose other operand's rows lie along K: dot products of a row
// with each vector. What is read of the vectors serves ROWS rows. A lane's pieces of a row are LANES apart.
#version 460
#pragma dtypes f32 f64 f16 bf16 i32 i8
#pragma kernel gemv-along
#pragma kernel gemv-texel-along TEXEL f32
#include "matmul-gemv.glsl"
layout(constant_id = 8) const uint ROWS = 4;
#define COUNT (ROWS * VECTORS)
shared ACC partial[SUBGROUPS * COUNT];
#define PLACE_OF(i) uvec2(own_block() * ROWS + (i) / VECTORS, (i) % VECTORS)
#include "matmul-gemv-finish.glsl"

void main() {
    uint first = own_block() * ROWS;
    if (first >= LINES) return;  // uniform in the group
    uint row[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) row[r] = min(first + r, LINES - 1) * K;

    ACC sums[COUNT];
    [[unroll]] for (uint i = 0; i < COUNT; ++i) sums[i] = ACC(0);
    uint from = (gl_WorkGroupID.y * STEPS * LANES + place()) * WIDTH_X;
    for (uint step = 0; step < STEPS; step += UNROLL, from += UNROLL * LANES * WIDTH_X) {
        uvec4 x[UNROLL * ROWS], y[UNROLL * PIECES_OF_Y(WIDTH_X)];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint k = from + u * LANES * WIDTH_X;
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                x[u * ROWS + r] = READ_X(row[r] + min(k, K - X_AT_ONCE), row[r] + K);
            }
            FETCH_Y(y, u * PIECES_OF_Y(WIDTH_X), k, WIDTH_X)
        }
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            [[unroll]] for (uint j = 0; j < WIDTH_X; ++j) {
                [[unroll]] for (uint v = 0; v < VECTORS; ++v) {
                    ACC factor = OF_Y(y, u * PIECES_OF_Y(WIDTH_X), WIDTH_X, j, v);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                        sums[r * VECTORS + v] += component(x[u * ROWS + r], j) * factor;
                    }
                }
            }
        }
    }

    [[unroll]] for (uint i = 0; i < COUNT; ++i) {
        ACC sum = sums[i];
        [[unroll]] for (uint step = 1; step < SUBGROUP; step *= 2) sum += subgroupShuffleXor(sum, step);
        if (gl_SubgroupInvocationID == 0) partial[gl_SubgroupID * COUNT + i] = sum;
    }
    finish();
}
