// Float addition to a word of a buffer: by the device's own atomic operation, or with CAS by compare-exchange, for
// devices that have none (shaderBufferFloat32AtomicAdd).
#include "reals.glsl"

#if defined(CAS)
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Sums { uint at[]; };

void atomic_add(Sums sums, uint index, float value) {
    // Only a guess: if it is out of date the exchange fails and returns what is there.
    uint found = sums.at[index], expected;
    do {
        expected = found;
        found = atomicCompSwap(sums.at[index], expected, floatBitsToUint(uintBitsToFloat(expected) + value));
    } while (found != expected);
}
#else
#extension GL_EXT_shader_atomic_float : require
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Sums { float at[]; };

void atomic_add(Sums sums, uint index, float value) { atomicAdd(sums.at[index], value); }
#endif
