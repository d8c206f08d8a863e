// Each lane gets the sum of the values up to its own: subgroupInclusiveAdd.
// With SHARED, log2(lanes) exchanges through shared memory, as Hillis and Steele (1986) do it.
// Source: Data Parallel C++, scans by shifts (at figure 9-15).
#version 460
#pragma dtypes i32
#pragma kernel scan-subgroup
#pragma kernel scan-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    for (uint distance = 1; distance < lanes; distance *= 2) {
        int below = exchange(value, lane >= distance ? lane - distance : lane);
        if (lane >= distance) value += below;
    }
    return value;
}
#else
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupInclusiveAdd(value); }
#endif
