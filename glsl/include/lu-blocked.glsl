// Common definitions of the blocked factorisations. All matrices but the inputs and results have rows of `stride` elements, a
// multiple of the block width, so that no kernel has a ragged edge inside. W, the trailing matrix, is A or a copy of
// it with ones on the diagonal beyond n; P has the columns of L of one outer block, k by k, Q its rows of U.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_null_initializer : require

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Reals { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quads { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Indices { uint at[]; };
// The first pivot that cannot be divided by: 2·column when it is zero, 2·column + 1 when it is not finite.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Status { int first; };

// Columns of an inner block: what one sub-group factorises in registers.
const uint INNER = 32;

// Reports a bad pivot of a column; for one invocation. The exponent is looked at as an integer, because a Vulkan
// compiler may assume that floats are finite.
void check_pivot(Status status, float pivot, uint column) {
    bool finite = (floatBitsToUint(pivot) & 0x7f800000u) != 0x7f800000u;
    if (pivot == 0.0 || !finite) atomicMin(status.first, int(2 * column + (finite ? 0 : 1)));
}

// Dividends of one divisor by its reciprocal, each corrected by its remainder, which makes it as exact as a division.
// Divisors near the ends of the range are scaled away from there, and dividends with them: without a branch, for a branch
// costs more than all of it.
struct Divisor {
    float scale, value, reciprocal;
};

// Power of two that scales a divisor away from overflow and underflow: 2^64 or 2^-64 near the ends of the range, else 1.
float scale_of(float value) {
    uint exponent = floatBitsToUint(value) >> 23 & 0xffu;
    return exponent < 64 ? 18446744073709551616.0 : (exponent > 190 ? 5.421010862427522e-20 : 1.0);
}

Divisor divisor(float value) {
    float scale = scale_of(value);
    return Divisor(scale, value * scale, 1.0 / (value * scale));
}

float quotient(float dividend, Divisor by) {
    float scaled = dividend * by.scale, near = scaled * by.reciprocal;
    return fma(fma(-near, by.value, scaled), by.reciprocal, near);
}
