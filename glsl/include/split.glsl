// How an f32 becomes two f16: scaled by a power of two so that the largest magnitude of its matrix is in [2^14, 2^15],
// then its 11 leading bits, and the f16 next to what they leave. Together they have 21 bits at least, down to 2^−18 of
// the largest magnitude; below, the error stays at 2^−40 of that.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

// The exponent e with largest = m·2^e, 1 ≤ m < 2, from its bits; bounded, so that no scale of it over- or underflows.
int exponent_of(uint bits) { return clamp(int(bits >> 23) - 127, -100, 100); }
