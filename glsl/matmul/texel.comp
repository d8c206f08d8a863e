// A product for software devices, where what counts is instructions and not the memory they reach: llvmpipe gathers a
// load lane by lane, in 97 cycles for one storage-buffer value and 33 for one of shared memory, but fetches four values
// from a texel buffer in 38.
//
// So the operands are read through texel views, four values a fetch. A group is one sub-group; it computes ROWS rows of
// C, a lane QUADS times four neighbouring columns of each, all sums in registers (the compiler's spills to the first
// cache are cheap beside loads). B is fetched by the lane that needs it. A is fetched once a sub-group, each lane
// another row, and handed round by subgroupShuffle from constant lanes, which is one instruction.
//
// In layout nt a texel of B has four k of a column, and the lane that owns four columns transposes four texels; in layout
// tn one of A has four rows of one k, and comes from another lane. Neither takes an instruction more.
//
// Rows of A or B need not start at a texel: then two texels are fetched and their values shifted into place.
// Source: measured on llvmpipe (docs/studies/matmul.md).
#version 460
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_null_initializer : require
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes f32
#pragma layouts nn nt tn
#include "matmul.glsl"

layout(local_size_x_id = 0) in;  // the size of the sub-group
layout(constant_id = 1) const uint ROWS = 32;
layout(constant_id = 2) const uint QUADS = 2;
layout(constant_id = 3) const uint A_ALIGNED = 0;  // whether rows of A, as it is stored, start at a texel
layout(constant_id = 4) const uint B_ALIGNED = 0;  // the same for B

layout(binding = 0) uniform samplerBuffer A4;
layout(binding = 1) uniform samplerBuffer B4;

const uint LANES = gl_WorkGroupSize.x;
const uint FETCHES = (ROWS + LANES - 1) / LANES;  // texels of A a lane, for four columns of A

// The four elements from `at` on. What lies beyond the texel of element `last` is not fetched, and undefined.
vec4 four(samplerBuffer texels, uint at, uint last, bool aligned) {
    vec4 low = texelFetch(texels, int(at / 4));
    if (aligned) return low;
    vec4 high = texelFetch(texels, int(min(at / 4 + 1, last / 4)));
    vec4 odd = (at & 1) != 0 ? vec4(low.yzw, high.x) : low;
    vec2 next = (at & 1) != 0 ? high.yz : high.xy;
    return (at & 2) != 0 ? vec4(odd.zw, next) : odd;
}

void main() {
    uint lane = gl_SubgroupInvocationID;
    uint first_row = folded_group_y() * ROWS;
    uint first_column = gl_WorkGroupID.x * QUADS * LANES * 4 + lane * 4;

    // Rows and columns beyond the edges are clamped: they compute sums that are not stored.
    uint column[QUADS];
#if defined(LAYOUT_TN)
    uint row_of_a[FETCHES], k_of_a[FETCHES];
    [[unroll]] for (uint f = 0; f < FETCHES; ++f) {
        row_of_a[f] = min(first_row + (f * LANES + lane) % (ROWS / 4) * 4, (M - 1) & ~3u);
        k_of_a[f] = (f * LANES + lane) / (ROWS / 4);
    }
#else
    uint row_of_a[FETCHES];
    [[unroll]] for (uint f = 0; f < FETCHES; ++f) row_of_a[f] = min(first_row + f * LANES + lane, M - 1) * K;
#endif
    [[unroll]] for (uint q = 0; q < QUADS; ++q) column[q] = min(first_column + q * LANES * 4, (N - 1) & ~3u);

    vec4 sums[ROWS * QUADS] = {};
    for (uint k = 0; k < K; k += 4) {
        // The columns of A beyond K are zeros, whatever lies there; the rows of B beyond K repeat the last, because
        // zero times a value from outside the matrix could be NaN.
        uvec4 ks = uvec4(k, k + 1, k + 2, k + 3);
        vec4 a[FETCHES], b[4 * QUADS];
        [[unroll]] for (uint f = 0; f < FETCHES; ++f) {
#if defined(LAYOUT_TN)
            uint own = k + k_of_a[f];
            vec4 values = four(A4, min(own, K - 1) * M + row_of_a[f], M * K - 1, A_ALIGNED != 0);
            a[f] = mix(vec4(0), values, lessThan(uvec4(own), uvec4(K)));
#else
            vec4 values = four(A4, row_of_a[f] + k, M * K - 1, A_ALIGNED != 0);
            a[f] = mix(vec4(0), values, lessThan(ks, uvec4(K)));
#endif
        }
#if defined(LAYOUT_NT)
        // Elements of B beyond K are replaced by zeros, because the memory there could hold NaN.
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            vec4 columns[4];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                columns[i] = four(B4, min(column[q] + i, N - 1) * K + k, K * N - 1, B_ALIGNED != 0);
                columns[i] = mix(vec4(0), columns[i], lessThan(ks, uvec4(K)));
            }
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                b[q * 4 + i] = vec4(columns[0][i], columns[1][i], columns[2][i], columns[3][i]);
            }
        }
#else
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            uint row_of_b = min(k + i, K - 1) * N;
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                b[q * 4 + i] = four(B4, row_of_b + column[q], K * N - 1, B_ALIGNED != 0);
            }
        }
#endif
        // All four products of a sum one after another: its spilled register is then loaded and stored once.
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
#if defined(LAYOUT_TN)
#define OF_ROW(i) subgroupShuffle(a[((i) * (ROWS / 4) + r / 4) / LANES][r % 4], ((i) * (ROWS / 4) + r / 4) % LANES)
#else
#define OF_ROW(i) subgroupShuffle(a[r / LANES][i], r % LANES)
#endif
            float x = OF_ROW(0), y = OF_ROW(1), z = OF_ROW(2), w = OF_ROW(3);
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                vec4 sum = sums[r * QUADS + q];
                sum += x * b[q * 4];
                sum += y * b[q * 4 + 1];
                sum += z * b[q * 4 + 2];
                sum += w * b[q * 4 + 3];
                sums[r * QUADS + q] = sum;
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            [[unroll]] for (uint c = 0; c < 4; ++c) {
                uint to = first_column + q * LANES * 4 + c;
                if (first_row + r < M && to < N) C.at[(first_row + r) * N + to] = sums[r * QUADS + q][c];
            }
        }
    }
}
