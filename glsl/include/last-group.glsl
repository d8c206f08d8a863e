// One pass over data in place of two: each work-group leaves its part of a result in memory and says that it is there;
// the last of them to arrive finishes. No group waits for another, so no progress of others is assumed.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Arrivals { uint at[]; };

shared bool came_last;

// Whether this work-group is the last of the `groups` that share counter `which`; every invocation gets the answer. What
// the others wrote to coherent buffers before they called it can then be read. All bits of `arrivals` are set before the
// first dispatch, and again after each.
bool last_to_arrive(Arrivals arrivals, uint which, uint groups) {
    groupMemoryBarrier();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        // One invocation orders what its group did before what it tells the others: a fence in each would cost more than
        // the data that a group reads.
        memoryBarrierBuffer();
        uint before = atomicAdd(arrivals.at[which], 1) + 1;  // 0 for the first
        came_last = before == groups - 1;
        if (came_last) atomicExchange(arrivals.at[which], 0xffffffffu);
        memoryBarrierBuffer();
    }
    barrier();
    groupMemoryBarrier();
    return came_last;
}

// The same for all work-groups of the dispatch.
bool last_to_arrive(Arrivals arrivals) {
    return last_to_arrive(arrivals, 0, gl_NumWorkGroups.x * gl_NumWorkGroups.y);
}
