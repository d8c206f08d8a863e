// Sums over the rows of an n×n matrix, of its elements or of their products with those of a vector. Include
// quads.glsl and subgroups.glsl first and define A_QUAD(i), quad i of the matrix, and A_ONE(i), its element i; for products X_QUAD(head, i), the
// elements of the vector from column head + 4·i on, and X_ONE(i).
//
// A team of TEAM sub-groups takes ROWS rows at once: so many loads are in flight, and a quad of the vector serves as many
// rows. Where n is no multiple of 4 rows begin anywhere in a quad, but those four apart begin at the same place in one:
// a team takes such rows, whose quads then have the same columns. The `head` columns before their first quad and those
// behind their last are added one by one.
//
// A sum is taken in an order that depends on n and the constants alone.
layout(constant_id = 2) const uint TEAM = 1;
layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint UNROLL = 1;  // quads of a row that an invocation has in flight

const uint LANES = TEAM * SUBGROUP;  // of a team
const uint TEAMS = GROUP / LANES;    // of a work-group

shared float partial[SUBGROUPS * ROWS];

// The row whose sum this invocation got, and that sum; n and nothing for most.
uint own_row;
float own_sum;

void sum_rows(uint n) {
    uint team = place() / LANES, lane = place() % LANES;
    uint number = folded_group() * TEAMS + team;
    uint first = number / 4 * (4 * ROWS) + number % 4;

    bool some = first < n;
    uint head = some ? min(-(first * n) & 3, n) : 0;
    uint quads = some ? (n - head) / 4 : 0;
    uint edges = some ? n - 4 * quads : 0;
    uint row[ROWS], quad[ROWS];
    // Rows beyond the last are the first again; their sums are nobody's.
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        row[r] = first + 4 * r < n ? first + 4 * r : first;
        quad[r] = (row[r] * n + head) / 4;
    }

    vec4 sums[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = vec4(0);
    uint q = lane;
    for (; q + (UNROLL - 1) * LANES < quads; q += UNROLL * LANES) {
        vec4 a[ROWS * UNROLL];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            [[unroll]] for (uint r = 0; r < ROWS; ++r) a[u * ROWS + r] = A_QUAD(quad[r] + q + u * LANES);
        }
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
#if defined(X_QUAD)
            vec4 x = X_QUAD(head, q + u * LANES);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += a[u * ROWS + r] * x;
#else
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += a[u * ROWS + r];
#endif
        }
    }
    for (; q < quads; q += LANES) {
#if defined(X_QUAD)
        vec4 x = X_QUAD(head, q);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += A_QUAD(quad[r] + q) * x;
#else
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] += A_QUAD(quad[r] + q);
#endif
    }
    for (uint e = lane; e < edges; e += LANES) {
        uint column = e < head ? e : 4 * quads + e;
#if defined(X_QUAD)
        float x = X_ONE(column);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r].x += A_ONE(row[r] * n + column) * x;
#else
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r].x += A_ONE(row[r] * n + column);
#endif
    }

    // Lane r ends with the sum of row r.
    own_row = n;
    own_sum = 0;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float sum = subgroup_sum((sums[r].x + sums[r].y) + (sums[r].z + sums[r].w));
        if (TEAM > 1) {
            if (gl_SubgroupInvocationID == r) partial[gl_SubgroupID * ROWS + r] = sum;
        } else if (lane == r) {
            own_sum = sum;
        }
    }
    if (TEAM > 1) {
        barrier();
        if (lane < ROWS) {
            for (uint part = 0; part < TEAM; ++part) own_sum += partial[(team * TEAM + part) * ROWS + lane];
        }
    }
    if (lane < ROWS) own_row = min(first + 4 * lane, n);
}
