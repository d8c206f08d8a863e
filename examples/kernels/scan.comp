#version 460
// Inclusive prefix sums: BLOCKS scans each block of 256 and leaves its total, SUMS scans the totals, ADD adds to each block
// the total of those before it.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) buffer Values { uint values[]; };
layout(set = 0, binding = 1) buffer Scan { uint scan[]; };
layout(set = 0, binding = 2) buffer Totals { uint totals[]; };
layout(push_constant) uniform Arguments { uint N; };

shared uint sums[256];

// The sum of this invocation's values and all earlier ones.
uint scanned(uint value) {
    const uint lane = gl_LocalInvocationID.x;
    sums[lane] = value;
    for (uint reach = 1; reach < 256; reach *= 2) {
        barrier();
        const uint before = lane >= reach ? sums[lane - reach] : 0;
        barrier();
        sums[lane] += before;
    }
    barrier();
    return sums[lane];
}

void main() {
    const uint i = gl_GlobalInvocationID.x;
#if defined(BLOCKS)
    const uint sum = scanned(i < N ? values[i] : 0);
    if (i < N) {
        scan[i] = sum;
    }
    if (gl_LocalInvocationID.x == 255) {
        totals[gl_WorkGroupID.x] = sum;
    }
#elif defined(SUMS)
    uint carried = 0;
    for (uint first = 0; first < N; first += 256) {
        const uint at = first + gl_LocalInvocationID.x;
        const uint sum = carried + scanned(at < N ? totals[at] : 0);
        if (at < N) {
            totals[at] = sum;
        }
        carried += sums[255];
        barrier();
    }
#else
    if (i < N && gl_WorkGroupID.x > 0) {
        scan[i] += totals[gl_WorkGroupID.x - 1];
    }
#endif
}
