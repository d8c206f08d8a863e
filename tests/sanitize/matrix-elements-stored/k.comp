#version 460
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
// D = A·B, 16 × 16 each; stored element by element.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer A { float16_t a[]; };
layout(binding = 1) readonly buffer B { float16_t b[]; };
layout(binding = 2) writeonly buffer D { float d[]; };
void main() {
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> left;
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> right;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    coopMatLoad(left, a, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(right, b, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    sum = coopMatMulAdd(left, right, sum);
    for (int k = 0; k < sum.length(); k++) {
        d[gl_SubgroupInvocationID * sum.length() + k] = sum[k];
    }
}
