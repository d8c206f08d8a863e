// A work-group's block of C in equal warp tiles, one for each sub-group (a "warp"), and a warp tile in cooperative
// matrices. An including kernel defines PIECE, and OUT, OUT_BITS and OUT_RAW, as matmul-matrix.glsl does, and ends its
// main() with STORE_WARP_TILE of matmul-store.glsl.
#extension GL_KHR_shader_subgroup_basic : require

layout(constant_id = 6) const uint WM = 32;  // the warp tile: what a sub-group computes
layout(constant_id = 7) const uint WN = 32;
layout(constant_id = 8) const uint TM = 16;  // the device's matrices: TM×TK times TK×TN
layout(constant_id = 9) const uint TN = 16;
layout(constant_id = 10) const uint TK = 16;
layout(constant_id = 11) const uint C_STEP = 1;  // rows of C start at multiples of so many components, a power of two

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Pieces { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer ResultPieces { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer ResultPairs { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer ResultBits { OUT_RAW at[]; };

const uint ROWS = WM / TM;
const uint COLUMNS = WN / TN;
const uint WARPS_ACROSS = BN / WN;
const uint WARPS = BM / WM * WARPS_ACROSS;
const uint LANES = gl_WorkGroupSize.x;
const uint LANES_PER_WARP = LANES / WARPS;

// Operands are moved in pieces of 16 bytes. In shared memory a row of a slab (of A_BY_COLUMNS or B_BY_COLUMNS a column)
// is a piece longer than its data, so that the same columns of 8 neighbouring rows lie in different banks.
#if defined(A_BY_COLUMNS)
const uint PIECES_IN_ROW_A = BM / PIECE;
const uint STRIDE_A = PIECES_IN_ROW_A + 1;
const uint SLAB_A = BK * STRIDE_A;
#else
const uint PIECES_IN_ROW_A = BK / PIECE;
const uint STRIDE_A = PIECES_IN_ROW_A + 1;
const uint SLAB_A = BM * STRIDE_A;
#endif
const uint PIECES_OF_A = BM * BK / PIECE / LANES;  // that an invocation moves
#if defined(B_BY_COLUMNS)
const uint PIECES_IN_ROW_B = BK / PIECE;
const uint STRIDE_B = PIECES_IN_ROW_B + 1;
const uint SLAB_B = BN * STRIDE_B;
#else
const uint PIECES_IN_ROW_B = BN / PIECE;
const uint STRIDE_B = PIECES_IN_ROW_B + 1;
const uint SLAB_B = BK * STRIDE_B;
#endif
const uint PIECES_OF_B = BK * BN / PIECE / LANES;

// C leaves through shared memory too, a row of matrices of each sub-group at a time: see matmul-store.glsl.
const uint OUT_PIECE = 128 / OUT_BITS;
const uint PIECES_IN_ROW_C = WN / OUT_PIECE;
const uint STRIDE_C = PIECES_IN_ROW_C + 1;
const uint STAGED_C = WARPS * TM * STRIDE_C;
