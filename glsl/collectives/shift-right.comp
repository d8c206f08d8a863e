// Each lane takes the value of the lane a fixed distance below: subgroupShuffleUp. What the first lanes get is
// undefined; they keep their own value.
// With SHARED, by way of shared memory.
// Source: Data Parallel C++, shift_group_right.
#version 460
#pragma dtypes i32
#pragma kernel shift-right-subgroup
#pragma kernel shift-right-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    return exchange(value, lane >= distance_of_shift() ? lane - distance_of_shift() : lane);
}
#else
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#include "collectives.glsl"

int operation(int value, uint i) {
    int shifted = subgroupShuffleUp(value, distance_of_shift());
    return lane >= distance_of_shift() ? shifted : value;
}
#endif
