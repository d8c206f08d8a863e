// Products in which one extent of C is small: a matrix X of LINES lines by some VECTORS vectors Y of K elements. What
// counts is X, which is read once, in pieces of 16 bytes where its rows start at multiples of 16 bytes, else one element
// at a time.
//
// A work-group sums up a block of C, over a part of K: an including kernel leaves the COUNT sums of each sub-group in
// `partial`, says which element of C each is (place_of), and ends with finish(). Where there are several parts their sums
// go to memory, and the last work-group of a block to arrive adds them up. Every sum is taken in an order that depends on
// the extents and the constants alone.
//
// With TEXEL, for software devices, X and Y are read through texel views, and where rows start anywhere two texels are
// shifted into place.
#include "dtype.glsl"
#include "last-group.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require

#if defined(DTYPE_F32)
#define RAW uint
#define PIECE 4
#define component(piece, i) uintBitsToFloat(piece[i])
#elif defined(DTYPE_F64)
#define RAW uvec2
#define PIECE 2
#define component(piece, i) packDouble2x32((i) == 0 ? piece.xy : piece.zw)
#elif defined(DTYPE_I32)
#define RAW uint
#define PIECE 4
#define component(piece, i) int(piece[i])
#elif defined(DTYPE_F16)
#define RAW uint16_t
#define PIECE 8
#define component(piece, i) unpackHalf2x16(piece[(i) / 2])[(i) % 2]
#elif defined(DTYPE_BF16)
#define RAW uint16_t
#define PIECE 8
#define component(piece, i) uintBitsToFloat((i) % 2 == 0 ? piece[(i) / 2] << 16 : piece[(i) / 2] & 0xffff0000u)
#elif defined(DTYPE_I8)
#define RAW uint8_t
#define PIECE 16
#define component(piece, i) bitfieldExtract(int(piece[(i) / 4]), int((i) % 4) * 8, 8)
#endif

// A piece whose first element is `raw`.
#if defined(DTYPE_F64)
#define FIRST_OF_PIECE(raw) uvec4(raw, 0, 0)
#else
#define FIRST_OF_PIECE(raw) uvec4(uint(raw), 0, 0, 0)
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SUBGROUP = 32;  // invocations of a sub-group
layout(constant_id = 2) const uint VECTORS = 1;
layout(constant_id = 3) const uint ACROSS_K = 0;  // the elements of all vectors for one k are neighbours
// Elements that an invocation reads at a time: a piece, a word, or one. Rows of X, and of the vectors, are whole ones.
layout(constant_id = 4) const uint X_AT_ONCE = 1;
layout(constant_id = 5) const uint Y_AT_ONCE = 1;
layout(constant_id = 6) const uint PARTS = 1;      // of K
layout(constant_id = 7) const uint UNROLL = 4;     // pieces that an invocation has in flight, of each line or column

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Operand { RAW at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Words { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pieces { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { OUT at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Sums { ACC at[]; };
layout(push_constant, scalar) uniform Arguments {
    Operand X;
    Operand Y;
    Result C;
    Sums SUMS;          // COUNT of each part of each block, where there are several parts
    Arrivals ARRIVALS;  // a counter for each block
    uint LINES, K;
    uint STEPS;               // of a part
    uint OF_LINE, OF_VECTOR;  // how far apart neighbouring elements of C are
};

#if defined(TEXEL)
layout(binding = 0) uniform samplerBuffer X4;
layout(binding = 1) uniform samplerBuffer Y4;
#endif

const uint LANES = gl_WorkGroupSize.x;
const uint SUBGROUPS = LANES / SUBGROUP;

// The number of an invocation in its work-group, consecutive in a sub-group.
uint place() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }

// Components of a piece as it is read. Through texel views a piece is never less than whole.
#if defined(TEXEL)
#define WIDTH(at_once) PIECE
// Elements from `at` to `end` (exclusive) of a view of `length` elements, and zeros behind them.
uvec4 read(samplerBuffer texels, uint at, uint end, uint length, bool aligned) {
    vec4 low = texelFetch(texels, int(at / 4));
    if (aligned) return floatBitsToUint(low);
    vec4 high = texelFetch(texels, int(min(at / 4 + 1, (length - 1) / 4)));
    vec4 odd = (at & 1) != 0 ? vec4(low.yzw, high.x) : low;
    vec2 next = (at & 1) != 0 ? high.yz : high.xy;
    vec4 four = (at & 2) != 0 ? vec4(odd.zw, next) : odd;
    return floatBitsToUint(mix(vec4(0), four, lessThan(at + uvec4(0, 1, 2, 3), uvec4(end))));
}
#define READ_X(at, end) read(X4, at, end, LINES * K, X_AT_ONCE == PIECE)
#define READ_Y(at, end) read(Y4, at, end, VECTORS * K, Y_AT_ONCE == PIECE)
#else
#define WIDTH(at_once) at_once
uvec4 read(Operand x, uint at, uint at_once) {
    if (at_once == PIECE) return Pieces(x).at[at / PIECE];
    if (at_once > 1) return uvec4(Words(x).at[at / at_once], 0, 0, 0);
    return FIRST_OF_PIECE(x.at[at]);
}
#define READ_X(at, end) read(X, at, X_AT_ONCE)
#define READ_Y(at, end) read(Y, at, Y_AT_ONCE)
#endif
const uint WIDTH_X = WIDTH(X_AT_ONCE);
const uint WIDTH_Y = WIDTH(Y_AT_ONCE);

// Reads pieces of all vectors for `depth` k from `k` on into y[from..]; zero beyond K, whatever X has there. A macro, for GLSL passes no arrays
// whose length is a specialization constant. OF_Y is element (k + j) of vector v, from what was read to y[from..].
#define PIECES_OF_Y(depth) (depth * VECTORS / WIDTH_Y)
#define FETCH_Y(y, from, k, depth)                                                                          \
    [[unroll]] for (uint p = 0; p < PIECES_OF_Y(depth); ++p) {                                              \
        uint flat_y = p * WIDTH_Y, own = ACROSS_K != 0 ? (k) * VECTORS + flat_y : (k) + flat_y % depth;      \
        uint end = ACROSS_K != 0 ? K * VECTORS : K, first = ACROSS_K != 0 ? 0 : flat_y / depth * K;         \
        uvec4 piece = READ_Y(first + min(own, end - Y_AT_ONCE), first + end);                              \
        y[from + p] = mix(uvec4(0), piece, bvec4(own < end));                                               \
    }
#define FLAT_Y(depth, j, v) (ACROSS_K != 0 ? (j) * VECTORS + (v) : (v) * depth + (j))
#define OF_Y(y, from, depth, j, v) component(y[from + FLAT_Y(depth, j, v) / WIDTH_Y], FLAT_Y(depth, j, v) % WIDTH_Y)

// The block of C that this work-group works at: blocks are numbered along x, then along z.
uint own_block() { return gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
