// The element type of a kernel. build.rs defines one DTYPE_… for each name in the kernel's `#pragma dtypes` line.
//
//   T        the type in memory
//   ACC      the type that sums are kept in
//   OUT      the type of a product in memory: T, but 32 bits for the sums of 8-bit integers
//   load(x)  T → ACC
//   store(x) ACC → OUT
//   T4, ACC4, load4(x), store4(x)   the same of four; store4 not for 8-bit integers
//
// A kernel that computes in T itself defines ARITHMETIC first; T2 is then a vector of two.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

#if defined(DTYPE_F32)
#define T float
#define T2 vec2
#define T4 vec4
#define ACC float
#define load(x) (x)
#define store(x) (x)
#elif defined(DTYPE_F64)
#extension GL_EXT_shader_explicit_arithmetic_types_float64 : require
#define T double
#define T2 dvec2
#define T4 dvec4
#define ACC double
#define load(x) (x)
#define store(x) (x)
#elif defined(DTYPE_F16)
// 16 bits in memory only: the device needs storageBuffer16BitAccess, not f16 arithmetic.
#extension GL_EXT_shader_16bit_storage : require
#if defined(ARITHMETIC)
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#define T float16_t
#define T2 f16vec2
#define T4 f16vec4
#define ACC float
#define load(x) float(x)
#define load4(x) vec4(x)
#define store(x) float16_t(x)
#define store4(x) f16vec4(x)
#elif defined(DTYPE_BF16)
// bf16 is the upper half of an f32, so it needs no extension beyond 16-bit storage.
#extension GL_EXT_shader_16bit_storage : require
#define T uint16_t
#define T4 u16vec4
#define ACC float
#define load(x) uintBitsToFloat(uint(x) << 16)
#define load4(x) uintBitsToFloat(uvec4(x) << 16)
// Round to nearest, ties to even; NaN stays NaN because only its upper half is kept. It is told by its bits: a compiler may
// take floats for finite.
uint bf16_of(float value) {
    uint bits = floatBitsToUint(value);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 1u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}
#define store(x) uint16_t(bf16_of(x))
#define store4(v) u16vec4(uvec4(bf16_of((v).x), bf16_of((v).y), bf16_of((v).z), bf16_of((v).w)))
#elif defined(DTYPE_I32)
#define T int
#define T2 ivec2
#define T4 ivec4
#define ACC int
#define load(x) (x)
#define store(x) (x)
#elif defined(DTYPE_I8)
#extension GL_EXT_shader_8bit_storage : require
#define T int8_t
#define OUT int
#define ACC int
#define load(x) int(x)
#define store(x) (x)
#endif
#if !defined(OUT)
#define OUT T
#endif

#if defined(DTYPE_F64)
#define ACC4 dvec4
#elif defined(DTYPE_I32) || defined(DTYPE_I8)
#define ACC4 ivec4
#else
#define ACC4 vec4
#endif
#if !defined(load4)
#define load4(x) (x)
#define store4(x) (x)
#endif
