// Float addition to a word of a buffer by compare-exchange, for devices without an atomic operation for it.
#include "reals.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Sums { uint at[]; };

void atomic_add(Sums sums, uint index, float value) {
    // Only a guess: if it is out of date the exchange fails and returns what is there.
    uint found = sums.at[index], expected;
    do {
        expected = found;
        found = atomicCompSwap(sums.at[index], expected, floatBitsToUint(uintBitsToFloat(expected) + value));
    } while (found != expected);
}
