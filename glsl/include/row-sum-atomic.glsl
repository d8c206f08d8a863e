// The body of row-sum/atomic and row-sum/atomic-cas.
#include "row-sum.glsl"

void main() {
    uint row = folded_group_y();
    if (row < n && gl_GlobalInvocationID.x < n) atomic_add(s, row, element(row));
}
