// A chain of work-group barriers: barrier, which every operation through shared memory contains at least once.
// Source: Data Parallel C++, barriers of work-groups.
#version 460
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) {
    barrier();
    return value;
}
