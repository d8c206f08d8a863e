// A chain of N dependent collective operations by one work-group of a few whole sub-groups, so that the time of a
// run is N times the latency of the operation.
//
// A kernel includes this file (or one that includes it) and defines `operation`, which communicates among the lanes
// of a sub-group. Each step takes the result of the one before: value ← operation(value, i) ^ mine. `mine` differs
// from lane to lane and from step to step, so no two lanes stay alike, no step can be left out, and the compiler
// finds no closed form; it is not part of the chain of dependences and adds one exclusive or to each operation
// (`nothing-subgroup` measures that).
//
// Invocations find their data by sub-group and lane, not by gl_LocalInvocationIndex, whose relation to sub-groups
// Vulkan leaves to the device.
#extension GL_KHR_shader_subgroup_basic : require
#include "dtype.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Given { T at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer Result { T at[]; };
layout(push_constant, scalar) uniform Arguments {
    Given X;         // one value an invocation
    Result Y;        // the values at the end of the chain
    Result F;        // what the host must know to check them: sub-group size, sub-groups, invocations, PRIMITIVE
    uint N;          // operations
    uint PRIMITIVE;  // the operation that the host expects
};

uint lanes = gl_SubgroupSize;
uint lane = gl_SubgroupInvocationID;
uint first = gl_SubgroupID * gl_SubgroupSize;  // the place of lane 0
uint place = first + lane;
int given;  // X at this place

int operation(int value, uint i);

#ifdef PREPARE
void PREPARE();
#endif

void main() {
    given = X.at[place];
    int mine = given * int(0x9e3779b1u);
    int value = mine;
#ifdef PREPARE
    PREPARE();
#endif
    for (uint i = 0; i < N; ++i) {
        value = operation(value, i) ^ mine;
        mine += int(0x85ebca77u);
    }
    Y.at[place] = value;
    if (place == 0) {
        F.at[0] = int(gl_SubgroupSize);
        F.at[1] = int(gl_NumSubgroups);
        F.at[2] = int(gl_WorkGroupSize.x);
        F.at[3] = int(PRIMITIVE);
    }
}

// The condition that votes are about: true for about one value in as many as there are lanes, so that a vote of the
// sub-group goes either way about as often.
bool rare(int value) { return uint(value) < 0xffffffffu / lanes; }

// A value that keeps the outcome of a vote. The addition does not commute with the exclusive or of the chain, so the
// end value depends on every vote, not only on how many went which way.
int voted(int value, bool yes) { return yes ? value + int(0xc2b2ae3du) : value; }

// A ballot as one word that depends on every bit of it.
int digest(uvec4 bits) {
    return int(bits.x * 0x9e3779b1u + bits.y * 0x85ebca77u + bits.z * 0xc2b2ae3du + bits.w * 0x27d4eb2fu);
}

// The distance of shifts: that of figure 9-15, 5 of 8 lanes, for any sub-group.
uint distance_of_shift() { return max(5 * lanes / 8, 1u); }
