// Shared by kernels that compute B = 2·A the slow way, or pretend to.
layout(local_size_x = 64) in;
layout(binding = 0) buffer A_ { float A[]; };
layout(binding = 1) buffer B_ { float B[]; };
layout(binding = 2) buffer S_ { uint S[]; };
layout(push_constant) uniform Sizes { uint N; };

// Twice x, after work that no compiler can leave out.
float twice(float x) {
    float work = x;
    for (uint step = 0; step < 1000; step++) work = sin(work) + 1e-3 * float(step & 7u);
    return work > 1e30 ? 0.0 : 2.0 * x;
}

// Earlier runs of this invocation, which S counts, behind a mark that no filler has.
uint earlier_runs(uint i) {
    const uint MARK = 0xabc00000u;
    uint runs = (S[i] & 0xfff00000u) == MARK ? S[i] & 0xfffffu : 0u;
    S[i] = MARK | (runs + 1u);
    return runs;
}
