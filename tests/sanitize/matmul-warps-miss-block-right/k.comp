#version 460
#extension GL_KHR_shader_subgroup_basic : require
// D = A·B by blocks of 32 × 32; one warp is to cover a block.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer D { float d[]; };
layout(push_constant) uniform Arguments { uint M, N, K; };
const uint BM = 32;
const uint BN = 32;
const uint BK = 8;
const uint WN = 32;
shared float a_tile[BM * BK];
shared float b_tile[BK * BN];
void main() {
    const uint l = gl_LocalInvocationIndex;
    const uint warp_size = 32;
    const uint WM = 32;
    const uint warp = l / warp_size;
    const uint warps_down = max(BM / WM, 1);
    const uint row = warp % warps_down * WM + l % warp_size;
    const uint first_column = warp / warps_down * WN;
    const uint block_row = gl_WorkGroupID.y * BM;
    const uint block_column = gl_WorkGroupID.x * BN;
    float sums[WN];
    for (uint j = 0; j < WN; j++) {
        sums[j] = 0;
    }
    for (uint k = 0; k < K; k += BK) {
        for (uint at = l; at < BM * BK; at += 32) {
            a_tile[at] = a[(block_row + at / BK) * K + k + at % BK];
        }
        for (uint at = l; at < BK * BN; at += 32) {
            b_tile[at] = b[(k + at / BN) * N + block_column + at % BN];
        }
        barrier();
        for (uint kk = 0; kk < BK; kk++) {
            const float left = a_tile[row * BK + kk];
            for (uint j = 0; j < WN; j++) {
                sums[j] += left * b_tile[kk * BN + first_column + j];
            }
        }
        barrier();
    }
    for (uint j = 0; j < WN; j++) {
        if (block_row + row < M && block_column + first_column + j < N) {
            d[(block_row + row) * N + block_column + first_column + j] = sums[j];
        }
    }
}
