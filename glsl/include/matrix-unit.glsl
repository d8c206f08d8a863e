// Rate of the matrix units: an invocation's sub-group adds products of the same fragments to CHAINS accumulators, which
// never leave registers. IN and OUT are the types of the operands and of the accumulators, WIDE that of the result.
//
// Every second product takes A1 in place of A0. For floats the host gives A1 = −A0, so that sums stay exact in the
// narrowest type, and one product is left in the end; for integers A1 = A0, and the end value counts the products.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint M = 16;
layout(constant_id = 2) const uint N = 16;
layout(constant_id = 3) const uint K = 16;
const uint CHAINS = 4;
layout(constant_id = 4) const uint STEPS = 512;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Operand { IN at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Result { WIDE at[]; };
layout(push_constant, scalar) uniform Arguments {
    Operand A;  // A0 and A1, M×K row major, one behind the other
    Operand B;  // CHAINS matrices, K×N row major
    Result C;   // CHAINS matrices, M×N row major
};

shared OUT tile[CHAINS * M * N];

void main() {
    coopmat<IN, gl_ScopeSubgroup, M, K, gl_MatrixUseA> even, odd;
    coopMatLoad(even, A.at, 0, K, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(odd, A.at, M * K, K, gl_CooperativeMatrixLayoutRowMajor);
    coopmat<IN, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b[CHAINS];
    coopmat<OUT, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> c[CHAINS];
    [[unroll]] for (uint i = 0; i < CHAINS; ++i) {
        coopMatLoad(b[i], B.at, i * K * N, N, gl_CooperativeMatrixLayoutRowMajor);
        c[i] = coopMatMulAdd(even, b[i], coopmat<OUT, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(OUT(0)));
    }
    for (uint step = 0; step < STEPS; ++step) {
        [[unroll]] for (uint i = 0; i < CHAINS; ++i) c[i] = coopMatMulAdd(odd, b[i], c[i]);
        [[unroll]] for (uint i = 0; i < CHAINS; ++i) c[i] = coopMatMulAdd(even, b[i], c[i]);
    }
    // Every sub-group stores the same, and so does every work-group.
    [[unroll]] for (uint i = 0; i < CHAINS; ++i) {
        coopMatStore(c[i], tile, i * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < CHAINS * M * N; i += gl_WorkGroupSize.x) C.at[i] = WIDE(tile[i]);
}
