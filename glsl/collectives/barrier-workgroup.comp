// A chain of work-group barriers: barrier, which every operation through shared memory contains at least once.
// Source: document 004, barriers of work-groups.
#version 460
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) {
    barrier();
    return value;
}
