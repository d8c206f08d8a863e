// Collective operations through shared memory: each invocation puts its value on a tile, and after a work-group
// barrier takes that of another lane of its sub-group. The tile has two sides that take turns, so that one barrier
// an exchange is enough: a side is written again only after the barrier of the exchange between.
#include "collectives.glsl"

shared int tile[2 * gl_WorkGroupSize.x];
uint side = 0;

// The value of lane `source`. All invocations of the work-group must call it.
int exchange(int value, uint source) {
    tile[side + place] = value;
    barrier();
    int taken = tile[side + first + source];
    side = gl_WorkGroupSize.x - side;
    return taken;
}
