// M[r,c] *= s[c] / s[r] with the row sums that a work-group needs in shared memory: one for its row, one for each of
// its columns.
shared float row_value;
shared float column_value[gl_WorkGroupSize.x];

void next_matrix(InPlace M, Input s, uint n) {
    uint row = folded_group_y(), column = gl_GlobalInvocationID.x, lane = gl_LocalInvocationID.x;
    if (row >= n) return;  // uniform in the group: no invocation misses the barrier
    if (lane == 0) row_value = s.at[row];
    if (column < n) column_value[lane] = s.at[column];
    barrier();
    if (column < n) M.at[row * n + column] *= (1.0 / row_value) * column_value[lane];
}
