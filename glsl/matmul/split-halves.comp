// Splits a matrix into its halves: see split.glsl. Rows are padded with zeros, and so are columns.
// Mapping: an invocation splits 8 neighbours of a row.
#version 460
#pragma dtypes f32
#include "fold.glsl"
#include "split.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Matrix { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Largest { uint bits; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Halves { uvec4 at[]; };
layout(push_constant, scalar) uniform Arguments {
    Matrix X;
    Largest LARGEST;
    Halves HIGH;
    Halves LOW;
    uint ROWS, COLUMNS;  // of X
    uint PIECES;         // of 8 elements, in a row of the halves
    uint ALL_PIECES;
};

void main() {
    uint piece = (gl_WorkGroupID.x + folded_group_y() * gl_NumWorkGroups.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (piece >= ALL_PIECES) return;
    uint row = piece / PIECES, column = piece % PIECES * 8;
    int up = 14 - exponent_of(LARGEST.bits);
    uvec4 high, low;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        vec2 x = vec2(0);
        uint at = row * COLUMNS + column + 2 * i;
        if (row < ROWS && column + 2 * i < COLUMNS) x.x = ldexp(X.at[at], up);
        if (row < ROWS && column + 2 * i + 1 < COLUMNS) x.y = ldexp(X.at[at + 1], up);
        // The 11 leading bits, by rounding the pattern: a compiler may take a conversion to f16 and back for nothing.
        vec2 leading = uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & ~0x1fffu);
        high[i] = packHalf2x16(leading);
        low[i] = packHalf2x16(x - leading);
    }
    HIGH.at[piece] = high;
    LOW.at[piece] = low;
}
