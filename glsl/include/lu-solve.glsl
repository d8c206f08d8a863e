// Substitution in a triangular system of order n, in place: L·y = v from the first row on (SIDE 0), U·x = v from the last
// one on (SIDE 1). Positions count rows and columns in the order in which they are solved for, so that both are one loop.
#include "lu-blocked.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in;  // 256
#include "subgroups.glsl"

layout(constant_id = 2) const uint SIDE = 0;

layout(push_constant, scalar) uniform Arguments {
    Reals T;        // L or U, n×n
    Reals inverses; // of the diagonal blocks of INNER positions, one after the other
    Reals v;
    uint n;
    uint first;     // position of the block
};

const uint NB = 128;            // positions of a block
const uint OCTET = 8;           // lanes that share a row
const uint SHARE = NB / OCTET;  // of its columns in a block that a lane has

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

// Over the lanes of a row.
float octet_sum(float value) {
    value += subgroupShuffleXor(value, 1);
    value += subgroupShuffleXor(value, 2);
    return value + subgroupShuffleXor(value, 4);
}
