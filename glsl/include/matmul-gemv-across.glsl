// The rows of X lie across K: a lane owns the WIDTH_X columns of a piece, of UNROLL rows at a time, and sums each vector's
// products with them up. ACROSS lanes are neighbours along a row, the others of the work-group go down.
#include "matmul-gemv.glsl"
layout(constant_id = 8) const uint ACROSS = 8;  // at most as many as a sub-group has
const uint COLUMNS = ACROSS * WIDTH_X;
const uint DOWN = LANES / ACROSS;
#define COUNT (COLUMNS * VECTORS)
shared ACC partial[SUBGROUPS * COUNT];
#define PLACE_OF(i) uvec2(own_block() * COLUMNS + (i) % COLUMNS, (i) / COLUMNS)
#include "matmul-gemv-finish.glsl"

void main() {
    uint first = own_block() * COLUMNS;
    if (first >= LINES) return;  // uniform in the group
    uint lane = place();
    uint column = first + lane % ACROSS * WIDTH_X;
    column = WIDTH_X > 1 ? min(column, (LINES - 1) / WIDTH_X * WIDTH_X) : min(column, LINES - 1);

    ACC sums[WIDTH_X * VECTORS];
    [[unroll]] for (uint i = 0; i < WIDTH_X * VECTORS; ++i) sums[i] = ACC(0);
    uint k = (gl_WorkGroupID.y * STEPS * DOWN + lane / ACROSS) * UNROLL;
    for (uint step = 0; step < STEPS; ++step, k += DOWN * UNROLL) {
        uvec4 x[UNROLL], y[PIECES_OF_Y(UNROLL)];
        [[unroll]] for (uint j = 0; j < UNROLL; ++j) {
            x[j] = k + j < K ? READ_X((k + j) * LINES + column, LINES * K) : uvec4(0);
        }
        FETCH_Y(y, 0, k, UNROLL)
        [[unroll]] for (uint j = 0; j < UNROLL; ++j) {
            ACC own[WIDTH_X];
            [[unroll]] for (uint c = 0; c < WIDTH_X; ++c) own[c] = component(x[j], c);
            [[unroll]] for (uint v = 0; v < VECTORS; ++v) {
                ACC factor = OF_Y(y, 0, UNROLL, j, v);
                [[unroll]] for (uint c = 0; c < WIDTH_X; ++c) sums[v * WIDTH_X + c] += own[c] * factor;
            }
        }
    }

    [[unroll]] for (uint i = 0; i < WIDTH_X * VECTORS; ++i) {
        ACC sum = sums[i];
        [[unroll]] for (uint step = ACROSS; step < SUBGROUP; step *= 2) sum += subgroupShuffleXor(sum, step);
        uint to = i / WIDTH_X * COLUMNS + lane % ACROSS * WIDTH_X + i % WIDTH_X;
        if (gl_SubgroupInvocationID < ACROSS) partial[gl_SubgroupID * COUNT + to] = sum;
    }
    finish();
}
