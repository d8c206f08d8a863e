// C = A·B, row major. A is M×K, B is K×N, C is M×N; any sizes. build.rs defines LAYOUT_NN, LAYOUT_NT (B is stored N×K) or
// LAYOUT_TN (A is stored K×M), one for each name in the kernel's `#pragma layouts` line.
#include "dtype.glsl"
#include "fold.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Operand { T at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { OUT at[]; };
layout(push_constant, scalar) uniform Arguments {
    Operand A;
    Operand B;
    Result C;
    uint M, N, K;
#if defined(IN_PARTS)
    uint PARTS;
#elif defined(EVENLY)
    Result SUMS;
    uint GROUPS;
#endif
};
