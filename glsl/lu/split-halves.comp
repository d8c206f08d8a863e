// Splits columns of L, or rows of U, of an outer block into halves of f16: see split.glsl. Each row of L and each column
// of U has a scale of its own.
// Mapping: x is a block of 128 rows of L or columns of U; of 256 invocations, 16 neighbours have 8 rows each, and every 16th k.
#version 460
#pragma dtypes f32
#include "lu-blocked.glsl"
#include "split.glsl"

layout(local_size_x_id = 0) in;  // 256
layout(constant_id = 1) const uint SIDE = 0;  // 0 for rows of U, 1 for columns of L

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Halves { uvec4 at[]; };
layout(push_constant, scalar) uniform Arguments {
    Reals X;            // P or Q
    Reals SCALES;       // of each k
    Halves HIGH, LOW;   // laid out as X
    Reals DOWN;         // what products of a row's, or column's, halves are to be multiplied by
    uint stride;
    uint start;         // the first row or column
    uint depth;
};

const uint PIECES = 16;
const uint SLICES = 16;
shared vec4 largest[SLICES * PIECES * 2];

void main() {
    uint lane = gl_LocalInvocationID.x, piece = lane % PIECES, slice = lane / PIECES;
    uint at = start + (gl_WorkGroupID.x * PIECES + piece) * 8, from = min(at, stride - 8);
    vec4 most[2] = {vec4(0), vec4(0)};
    for (uint k = slice; k < depth; k += SLICES) {
        float scale = SIDE != 0 ? SCALES.at[k] : 1.0 / SCALES.at[k];
        [[unroll]] for (uint i = 0; i < 2; ++i) {
            most[i] = max(most[i], abs(Quads(X).at[(k * stride + from) / 4 + i] * scale));
        }
    }
    [[unroll]] for (uint i = 0; i < 2; ++i) largest[(slice * PIECES + piece) * 2 + i] = most[i];
    barrier();
    [[unroll]] for (uint s = 0; s < SLICES; ++s) {
        [[unroll]] for (uint i = 0; i < 2; ++i) most[i] = max(most[i], largest[(s * PIECES + piece) * 2 + i]);
    }
    if (at >= stride) return;
    vec4 up[2];
    [[unroll]] for (uint i = 0; i < 2; ++i) {
        vec4 down;
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            int e = exponent_of(floatBitsToUint(most[i][c])) - 14;
            up[i][c] = ldexp(1.0, -e);
            down[c] = ldexp(1.0, e);
        }
        if (slice == 0) Quads(DOWN).at[at / 4 + i] = down;
    }
    for (uint k = slice; k < depth; k += SLICES) {
        float scale = SIDE != 0 ? SCALES.at[k] : 1.0 / SCALES.at[k];
        uvec4 high, low;
        [[unroll]] for (uint i = 0; i < 2; ++i) {
            vec4 scaled = Quads(X).at[(k * stride + at) / 4 + i] * scale * up[i];
            vec4 leading = uintBitsToFloat((floatBitsToUint(scaled) + 0x1000u) & ~0x1fffu);
            high[2 * i] = packHalf2x16(leading.xy);
            high[2 * i + 1] = packHalf2x16(leading.zw);
            low[2 * i] = packHalf2x16(scaled.xy - leading.xy);
            low[2 * i + 1] = packHalf2x16(scaled.zw - leading.zw);
        }
        HIGH.at[(k * stride + at) / 8] = high;
        LOW.at[(k * stride + at) / 8] = low;
    }
}
