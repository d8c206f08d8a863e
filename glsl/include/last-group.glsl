// One pass over data in place of two: each work-group leaves its part of a result in memory and says that it is there;
// the last of them to arrive finishes. No group waits for another, so no progress of others is assumed.
#extension GL_KHR_memory_scope_semantics : require
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Arrivals { uint at[]; };

// Counts one of `arriving` in at counter `which`; whether it is the last, which can then read what the others wrote to
// coherent buffers before they called it. All bits of `arrivals` are set before the first dispatch, and again after each.
bool arrives_last(Arrivals arrivals, uint which, uint arriving) {
    bool last = atomicAdd(arrivals.at[which], 1) + 1 == arriving - 1;  // 0 for the first
    if (last) atomicExchange(arrivals.at[which], 0xffffffffu);
    return last;
}

uint work_groups() { return gl_NumWorkGroups.x * gl_NumWorkGroups.y; }

shared bool came_last;

// The same for the work-groups that share a counter: every invocation gets the answer. The one that counts first orders what all
// of its group wrote, which the barrier made known to it: by the memory model only its own fence precedes its count. What other
// groups wrote matters to the last group alone.
bool last_to_arrive(Arrivals arrivals, uint which, uint groups) {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
    if (gl_LocalInvocationIndex == 0) {
        memoryBarrierBuffer();
        came_last = arrives_last(arrivals, which, groups);
    }
    barrier();
    if (!came_last) return false;
    memoryBarrierBuffer();
    return true;
}

// The same for all work-groups of the dispatch.
bool last_to_arrive(Arrivals arrivals) { return last_to_arrive(arrivals, 0, work_groups()); }
