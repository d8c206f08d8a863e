// Substitution in a triangular system of order n, in place: L·y = v from the first row on (SIDE 0), U·x = v from the last
// one on (SIDE 1). Positions count rows and columns in the order in which they are solved for, so that both are one loop.
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;
#include "subgroups.glsl"

layout(constant_id = 2) const uint NB = 128;  // positions of a block, a multiple of SUBGROUP
layout(constant_id = 3) const uint SIDE = 0;

layout(push_constant, scalar) uniform Arguments {
    Reals T;        // L or U, n×n
    Reals v;
    Status status;
    uint n;
    uint first;     // position of the block
};

// The row, or column, at a position.
uint at(uint position) { return SIDE == 0 ? position : n - 1 - position; }

float factor(uint row, uint column) { return row < n && column < n ? T.at[at(row) * n + at(column)] : 0.0; }
float value(uint position) { return position < n ? v.at[at(position)] : 0.0; }
