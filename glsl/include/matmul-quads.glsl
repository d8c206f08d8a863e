// Loads and stores of four neighbouring elements of a matrix, an ACC4: one access where every row of it starts at one, else
// four. Which of the two is a specialization constant, so neither costs a branch.
//
// The rows of an operand as it is stored lie along K (A, and B of layout nt) or across it (B, and A of layout tn).
//
// Nothing outside the matrices is touched. A row or column beyond the edge is clamped (its sums are not stored), and
// what lies beyond K is zero in both operands, so it adds nothing to the others.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_null_initializer : require
#include "matmul.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer OperandQuads { T4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer ResultQuads { T4 at[]; };

layout(constant_id = 1) const uint A_ALIGNED = 0;  // the length of A's rows is a multiple of 4
layout(constant_id = 2) const uint B_ALIGNED = 0;  // that of B's
layout(constant_id = 10) const uint C_ALIGNED = 0;

// x[row][k..k + 4] of a matrix of `rows` rows along K, with k a multiple of 4.
ACC4 quad_along(Operand x, uint row, uint rows, uint k, bool aligned) {
    uint from = min(row, rows - 1) * K;
    if (aligned) return k < K ? load4(OperandQuads(x).at[from / 4 + k / 4]) : ACC4(0);
    ACC4 quad;
    quad.x = k + 0 < K ? load(x.at[from + k + 0]) : 0;
    quad.y = k + 1 < K ? load(x.at[from + k + 1]) : 0;
    quad.z = k + 2 < K ? load(x.at[from + k + 2]) : 0;
    quad.w = k + 3 < K ? load(x.at[from + k + 3]) : 0;
    return quad;
}

// x[k][column..column + 4] of a matrix of `columns` columns, with column a multiple of 4.
ACC4 quad_across(Operand x, uint k, uint column, uint columns, bool aligned) {
    if (aligned) return k < K ? load4(OperandQuads(x).at[k * (columns / 4) + min(column, columns - 4) / 4]) : ACC4(0);
    uvec4 at = k * columns + min(column + uvec4(0, 1, 2, 3), uvec4(columns - 1));
    return k < K ? ACC4(load(x.at[at.x]), load(x.at[at.y]), load(x.at[at.z]), load(x.at[at.w])) : ACC4(0);
}

// C[row][column..column + 4] = quad where inside of C, with column a multiple of 4. C begins at element `first`, a multiple
// of 4.
void store_quad(uint row, uint column, ACC4 quad, uint first) {
    if (row >= M || column >= N) return;
    uint to = first + row * N + column;
    if (C_ALIGNED != 0) {
        ResultQuads(C).at[to / 4] = store4(quad);
        return;
    }
    C.at[to] = store(quad.x);
    if (column + 1 < N) C.at[to + 1] = store(quad.y);
    if (column + 2 < N) C.at[to + 2] = store(quad.z);
    if (column + 3 < N) C.at[to + 3] = store(quad.w);
}
