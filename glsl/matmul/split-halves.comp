// Splits a matrix into its halves: see split.glsl. Rows are padded with zeros, and so are columns.
// Mapping: an invocation splits 8 neighbours of a row; the next one those to the right of them, but below them where X is
// stored transposed, so that what they read are neighbours.
#version 460
#pragma dtypes f32
#include "fold.glsl"
#include "split.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ALIGNED = 0;  // rows of X start at multiples of 16 bytes
layout(constant_id = 2) const uint TRANSPOSED = 0;  // X has COLUMNS rows

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Matrix { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Quads { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Largest { uint bits; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Halves { uvec4 at[]; };
layout(push_constant, scalar) uniform Arguments {
    Matrix X;
    Largest LARGEST;
    Halves HIGH;
    Halves LOW;
    uint ROWS, COLUMNS;  // of the matrix
    uint PIECES;         // of 8 elements, in a row of the halves
    uint ALL_PIECES;
    uint PANEL;          // pieces of a row that are neighbours; then come those of the next row
};

void main() {
    uint piece = (gl_WorkGroupID.x + folded_group_y() * gl_NumWorkGroups.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (piece >= ALL_PIECES) return;
    uint row = piece / PIECES, own = piece % PIECES;
    if (TRANSPOSED != 0) {
        own = piece / (ALL_PIECES / PIECES);
        row = piece % (ALL_PIECES / PIECES);
    }
    uint column = own * 8;
    float up = ldexp(1.0, 14 - exponent_of(LARGEST.bits));
    vec4 x[2] = {vec4(0), vec4(0)};
    [[unroll]] for (uint i = 0; i < 2; ++i) {
        uint at = row * COLUMNS + column + 4 * i;
        if (TRANSPOSED != 0) {
            [[unroll]] for (uint j = 0; j < 4; ++j) {
                uint from = column + 4 * i + j;
                if (row < ROWS && from < COLUMNS) x[i][j] = X.at[from * ROWS + row];
            }
        } else if (ALIGNED != 0) {
            if (row < ROWS && column + 4 * i < COLUMNS) x[i] = Quads(X).at[at / 4];
        } else {
            [[unroll]] for (uint j = 0; j < 4; ++j) {
                if (row < ROWS && column + 4 * i + j < COLUMNS) x[i][j] = X.at[at + j];
            }
        }
    }
    uvec4 high, low;
    [[unroll]] for (uint i = 0; i < 2; ++i) {
        // The 11 leading bits, by rounding the pattern: a compiler may take a conversion to f16 and back for nothing.
        vec4 scaled = x[i] * up, leading = uintBitsToFloat((floatBitsToUint(scaled) + 0x1000u) & ~0x1fffu);
        high[2 * i] = packHalf2x16(leading.xy);
        high[2 * i + 1] = packHalf2x16(leading.zw);
        low[2 * i] = packHalf2x16(scaled.xy - leading.xy);
        low[2 * i + 1] = packHalf2x16(scaled.zw - leading.zw);
    }
    uint to = (own / PANEL * (ALL_PIECES / PIECES) + row) * PANEL + own % PANEL;
    HIGH.at[to] = high;
    LOW.at[to] = low;
}
