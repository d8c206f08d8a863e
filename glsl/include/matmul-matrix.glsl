// Products on matrix units: what the kernels with cooperative matrices share.
//
//   IN       component type of the operands' matrices
//   RAW      the integer of the same width, as which operands are moved: moving needs no arithmetic
//   PIECE    components in 16 bytes
//   SUM      component type of the accumulators: 32 bits, or NARROW_SUM
//   OUT      type of C in memory, or of its parts; OUT_BITS its width, OUT_RAW the integer of that width
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_scalar_block_layout : require
#include "fold.glsl"

#if defined(DTYPE_F16)
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#define IN float16_t
#define OUT float16_t
#define OUT_BITS 16
#define OUT_RAW uint16_t
#define RAW uint16_t
#define BITS 16
#define SUM float
#elif defined(DTYPE_BF16)
#extension GL_EXT_bfloat16 : require
#extension GL_EXT_shader_16bit_storage : require
#define IN bfloat16_t
#define OUT bfloat16_t
#define OUT_BITS 16
#define OUT_RAW uint16_t
#define RAW uint16_t
#define BITS 16
#define SUM float
#elif defined(DTYPE_I8)
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
#define IN int8_t
#define OUT int
#define OUT_BITS 32
#define OUT_RAW uint
#define RAW uint8_t
#define BITS 8
#define SUM int
#endif
#if defined(NARROW_SUM)
#undef SUM
#define SUM IN
#endif
// Sums of a part of K stay in 32 bits.
#if defined(IN_PARTS) && !defined(DTYPE_I8)
#undef OUT
#undef OUT_BITS
#undef OUT_RAW
#define OUT float
#define OUT_BITS 32
#define OUT_RAW uint
#endif
#define PIECE (128 / BITS)

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Operand { RAW at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Result { OUT at[]; };
layout(push_constant, scalar) uniform Arguments {
    Operand A;  // M×K
    Operand B;  // K×N
    Result C;   // M×N
    uint M, N, K;
#if defined(IN_PARTS)
    uint PARTS;
#endif
};

// The block of C that a work-group computes, and how it is cut up.
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint BM = 64;
layout(constant_id = 4) const uint BN = 64;
layout(constant_id = 5) const uint BK = 32;
#include "matmul-parts.glsl"

// Rounds a matrix of sums to what OUT can hold: the conversion to bf16 alone may cut bits off (it does on an H100).
#if defined(DTYPE_BF16) && !defined(IN_PARTS)
#define round_to_out(sums)                                                                                 \
    for (int i = 0; i < sums.length(); ++i) {                                                              \
        uint bits = floatBitsToUint(sums[i]);                                                              \
        if (!isnan(sums[i])) sums[i] = uintBitsToFloat((bits + 0x7fffu + ((bits >> 16) & 1u)) & ~0xffffu); \
    }
#else
#define round_to_out(sums)
#endif
