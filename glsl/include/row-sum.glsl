// s[r] = Σ A[r,c] over c: A is n×n, s starts as zeros. Include float-atomic.glsl first.
layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Input A;
    Sums s;
    uint n;
};

// The element of an invocation; zero, which changes no sum, beyond the end of the row.
float element(uint row) {
    uint column = gl_GlobalInvocationID.x;
    return column < n ? A.at[row * n + column] : 0.0;
}
