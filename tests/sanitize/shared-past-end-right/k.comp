#version 460
// Each work-group mirrors its 64 values, and keeps the first 32 a second time behind them.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint kept[96];
void main() {
    const uint l = gl_LocalInvocationIndex;
    const uint value = x[gl_GlobalInvocationID.x];
    kept[l] = value;
    if (l < 32) kept[64 + l] = value + 1;
    barrier();
    y[gl_GlobalInvocationID.x] = kept[63 - l] + kept[64 + l % 32];
}
