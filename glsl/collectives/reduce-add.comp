// All lanes get the sum of their values: subgroupAdd.
// With SHARED, a butterfly of log2(lanes) exchanges through shared memory.
// Source: Data Parallel C++, collective functions (reduce).
#version 460
#pragma dtypes i32
#pragma kernel reduce-add-subgroup
#pragma kernel reduce-add-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    for (uint distance = 1; distance < lanes; distance *= 2) value += exchange(value, lane ^ distance);
    return value;
}
#else
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupAdd(value); }
#endif
