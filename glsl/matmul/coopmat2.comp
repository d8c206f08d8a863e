// Products by cooperative matrices of work-group scope: the driver cuts them up, stages and prefetches as it sees fit.
#version 460
#pragma vulkan 1.3
#pragma dtypes f16 bf16 i8
#pragma layouts nn nt tn
#pragma kernel coopmat2
#pragma kernel coopmat2-narrow NARROW_SUM f16
#extension GL_NV_cooperative_matrix2 : require
#include "matmul-matrix.glsl"

// Elements outside of a matrix are read as zero and not written; where there are none, the driver need not look.
layout(constant_id = 1) const uint CLAMP = gl_CooperativeMatrixClampModeConstantNV;
layout(constant_id = 2) const uint ALIGNED = 0;  // all rows start at multiples of 16 bytes

layout(constant_id = 6) const uint SLABS_AT_ONCE = 1;  // slabs of an iteration: the driver makes more of several

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Components { IN at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Sums { OUT at[]; };

// Tells the compiler what it cannot see: that a row's length is a multiple of 16 bytes.
uint aligned(uint components) {
    return ALIGNED != 0 ? components / PIECE * PIECE : components;
}

void main() {
    uint first_row = (gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x) * BM;
    uint first_column = gl_WorkGroupID.y * BN;
    if (first_row >= M) return;

    tensorLayoutNV<2, CLAMP> layout_a = createTensorLayoutNV(2, CLAMP);
    tensorLayoutNV<2, CLAMP> layout_b = createTensorLayoutNV(2, CLAMP);
    tensorLayoutNV<2, CLAMP> layout_c = createTensorLayoutNV(2, CLAMP);
#if defined(LAYOUT_TN)
    layout_a = setTensorLayoutDimensionNV(layout_a, K, M);
    layout_a = setTensorLayoutStrideNV(layout_a, aligned(M), 1);
#else
    layout_a = setTensorLayoutDimensionNV(layout_a, M, K);
    layout_a = setTensorLayoutStrideNV(layout_a, aligned(K), 1);
#endif
#if defined(LAYOUT_NT)
    layout_b = setTensorLayoutDimensionNV(layout_b, N, K);
    layout_b = setTensorLayoutStrideNV(layout_b, aligned(K), 1);
#else
    layout_b = setTensorLayoutDimensionNV(layout_b, K, N);
    layout_b = setTensorLayoutStrideNV(layout_b, aligned(N), 1);
#endif
    layout_c = setTensorLayoutDimensionNV(layout_c, M, N);
    layout_c = setTensorLayoutStrideNV(layout_c, aligned(N), 1);

#if !defined(LAYOUT_NN)
    tensorViewNV<2, false, 1, 0> transposed = createTensorViewNV(2, false, 1, 0);
#endif

    coopmat<SUM, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> sums =
        coopmat<SUM, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>(SUM(0));
    for (uint slabs = 0; slabs < K; slabs += SLABS_AT_ONCE * BK) {
        [[unroll]] for (uint i = 0; i < SLABS_AT_ONCE; ++i) {
            uint k = slabs + i * BK;
            coopmat<IN, gl_ScopeWorkgroup, BM, BK, gl_MatrixUseA> a;
            coopmat<IN, gl_ScopeWorkgroup, BK, BN, gl_MatrixUseB> b;
#if defined(LAYOUT_TN)
            coopMatLoadTensorNV(a, Components(A).at, 0, sliceTensorLayoutNV(layout_a, k, BK, first_row, BM), transposed);
#else
            coopMatLoadTensorNV(a, Components(A).at, 0, sliceTensorLayoutNV(layout_a, first_row, BM, k, BK));
#endif
#if defined(LAYOUT_NT)
            coopMatLoadTensorNV(b, Components(B).at, 0, sliceTensorLayoutNV(layout_b, first_column, BN, k, BK), transposed);
#else
            coopMatLoadTensorNV(b, Components(B).at, 0, sliceTensorLayoutNV(layout_b, k, BK, first_column, BN));
#endif
            sums = coopMatMulAdd(a, b, sums);
        }
    }
    round_to_out(sums);
    coopmat<OUT, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator> block =
        coopmat<OUT, gl_ScopeWorkgroup, BM, BN, gl_MatrixUseAccumulator>(sums);
    coopMatStoreTensorNV(block, Sums(C).at, 0, sliceTensorLayoutNV(layout_c, first_row, BM, first_column, BN));
}
