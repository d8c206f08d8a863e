// A chain of barriers of the sub-group, or of the work-group, of which every operation through shared memory has at least
// one. With neither macro, a chain without an operation: the cost of the loop itself, to be subtracted from the others.
// Mapping: an invocation a lane, in one work-group of two sub-groups.
// Source: Data Parallel C++, barriers of sub-groups and of work-groups.
#version 460
#pragma dtypes i32
#pragma kernel barrier-subgroup SUBGROUP
#pragma kernel barrier-workgroup WORKGROUP
#pragma kernel nothing-subgroup
#include "collectives.glsl"

int operation(int value, uint i) {
#if defined(SUBGROUP)
    subgroupBarrier();
#elif defined(WORKGROUP)
    barrier();
#endif
    return value;
}
