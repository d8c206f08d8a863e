#version 460
#extension GL_KHR_memory_scope_semantics : require
// The sum of everything: the work-group that finishes last adds up the sums of all.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) coherent buffer Sums { uint sums[]; };
layout(binding = 3) coherent buffer Count { uint count; };
shared uint s[128];
shared bool last;
void sum_up() {
    const uint l = gl_LocalInvocationIndex;
    for (uint reach = 64; reach > 0; reach /= 2) {
        barrier();
        if (l < reach) {
            s[l] += s[l + reach];
        }
    }
}
void main() {
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[gl_GlobalInvocationID.x];
    sum_up();
    if (l == 0) {
        sums[gl_WorkGroupID.x] = s[0];
        last = atomicAdd(count, 1, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease) == gl_NumWorkGroups.x - 1;
    }
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    if (last) {
        s[l] = l < gl_NumWorkGroups.x ? sums[l] : 0;
        sum_up();
        if (l == 0) {
            y[0] = s[0];
        }
    }
}
