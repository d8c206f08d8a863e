// The inverses of the diagonal blocks of L and of U, by substitution in the columns of the identity.
// Mapping: x is the block of 32 positions, y is 0 for L and 1 for U, whose positions count from the last row; a lane has a column.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x = 32) in;

layout(push_constant, scalar) uniform Arguments {
    Reals L, U;
    Reals inverses;  // those of L, then those of U
    Status status;
    uint n;
};

const uint PITCH = INNER + 1;

shared float block[INNER * PITCH];
shared float inverse[INNER * INNER];

void main() {
    uint lane = gl_LocalInvocationID.x, side = gl_WorkGroupID.y, first = gl_WorkGroupID.x * INNER;
    uint column = min(first + lane, n - 1);
    [[unroll]] for (uint i = 0; i < INNER; ++i) {
        uint row = min(first + i, n - 1);
        float loaded = side == 0 ? L.at[row * n + column] : U.at[(n - 1 - row) * n + n - 1 - column];
        bool below = lane < i && first + i < n;
        bool diagonal = lane == i && side == 1 && first + i < n;
        block[i * PITCH + lane] = below || diagonal ? loaded : (lane == i ? 1.0 : 0.0);
        inverse[i * INNER + lane] = 0.0;
    }
    barrier();
    if (side == 1 && first + lane < n) check_pivot(status, block[lane * PITCH + lane], n - 1 - first - lane);
    for (uint i = 0; i < INNER; ++i) {
        float sum = lane == i ? 1.0 : 0.0;
        // What is not solved for yet is zero.
        for (uint some = 0; some < i; some += 8) {
            [[unroll]] for (uint k = 0; k < 8; ++k) {
                sum -= block[i * PITCH + some + k] * inverse[(some + k) * INNER + lane];
            }
        }
        inverse[i * INNER + lane] = quotient(sum, divisor(block[i * PITCH + i]));
    }
    uint to = (side * gl_NumWorkGroups.x + gl_WorkGroupID.x) * INNER * INNER;
    [[unroll]] for (uint i = 0; i < INNER; ++i) inverses.at[to + i * INNER + lane] = inverse[i * INNER + lane];
}
