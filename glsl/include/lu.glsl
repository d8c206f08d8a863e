// A = L·U without pivoting, n×n, row major, n any size: L unit lower triangular, U upper triangular. `i` is the pivot's
// row and column, 0 ≤ i < n-1; what lies below it is eliminated.
#include "dtype.glsl"
#include "fold.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Matrix { T at[]; };
// The first pivot that cannot be divided by: 2·column when it is zero, 2·column + 1 when it is not finite.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Status { int first; };
layout(push_constant, scalar) uniform Arguments {
    Matrix A;
    Matrix L;
    Matrix U;
    Status status;
    uint n, i;
};

// Reports a bad pivot; one invocation of a dispatch calls it. The exponent is looked at as an integer, because a Vulkan
// compiler may assume that floats are finite.
void check_pivot(float pivot) {
    bool finite = (floatBitsToUint(pivot) & 0x7f800000u) != 0x7f800000u;
    if (pivot == 0.0 || !finite) atomicMin(status.first, int(2 * i + (finite ? 0 : 1)));
}
