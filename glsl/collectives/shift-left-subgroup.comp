// Each lane takes the value of the lane a fixed distance above: subgroupShuffleDown. What the last lanes get is
// undefined; they keep their own value.
// Source: Data Parallel C++, shift_group_left (figure 9-15).
#version 460
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) {
    int shifted = subgroupShuffleDown(value, distance_of_shift());
    return lane + distance_of_shift() < lanes ? shifted : value;
}
