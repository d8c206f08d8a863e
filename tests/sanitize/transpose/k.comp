#version 460
// The transpose of a square matrix, by tiles of 16 × 16.
layout(local_size_x = 16, local_size_y = 8) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Arguments { uint N; };
shared uint tile[16][17];
void main() {
    const uvec2 local = gl_LocalInvocationID.xy;
    const uvec2 first = gl_WorkGroupID.xy * 16;
    for (uint row = local.y; row < 16; row += 8) {
        tile[row][local.x] = x[(first.y + row) * N + first.x + local.x];
    }
    barrier();
    for (uint row = local.y; row < 16; row += 8) {
        y[(first.x + row) * N + first.y + local.x] = tile[local.x][row];
    }
}
