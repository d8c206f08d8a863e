// A chain of sub-group barriers: subgroupBarrier.
// Source: Data Parallel C++, barriers of sub-groups.
#version 460
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) {
    subgroupBarrier();
    return value;
}
