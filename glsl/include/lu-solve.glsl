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

// Zero beyond the last position. Something is loaded there too: loads under a condition would wait for each other.
float factor(uint row, uint column) {
    float loaded = T.at[at(min(row, n - 1)) * n + at(min(column, n - 1))];
    return row < n && column < n ? loaded : 0.0;
}
float value(uint position) {
    float loaded = v.at[at(min(position, n - 1))];
    return position < n ? loaded : 0.0;
}
