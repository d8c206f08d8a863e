// The exchange of rows at the end of a panel: 32 pivots change places with the rows that stood in theirs, in the columns of the
// outer block up to this inner block, which are in P, and in `rows`. Rows of U come to their place at the same time.
//
// The including kernel declares LANES, at least 64; the arguments P, rows, stride, first and plane; and `pivots`, the places of
// the pivots from `first` on, in shared memory. It defines ROW_OF_U(i, d), the element of U in column d of pivot i.
shared uint near, stays;  // bits: of pivots among the first 32 rows, and of those rows
shared uint sources[2 * INNER], targets[2 * INNER], moved;

// A barrier after which the group sees what it wrote to buffers.
void barrier_of_memory() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// Begins, and says which pivots lie among the first rows: each with a barrier behind it before the next.
void begin_exchange(uint lane) {
    if (lane == 0) {
        near = 0;
        stays = 0;
    }
}

void mark_pivots(uint lane) {
    if (lane < INNER && pivots[lane] < INNER) {
        atomicOr(near, 1u << lane);
        atomicOr(stays, 1u << pivots[lane]);
    }
}

// Behind a barrier of memory.
void exchange(uint lane) {
    // Where rows go: the pivots to the front, those that stood there to where pivots were.
    if (lane < INNER) {
        uint place = pivots[lane], before = (1u << lane) - 1;
        sources[lane] = first + place;
        targets[lane] = first + lane;
        if (place >= INNER) targets[INNER + bitCount(~near & before)] = first + place;
        if ((stays >> lane & 1u) == 0) sources[INNER + bitCount(~stays & before)] = first + lane;
        // Both counts are equal, unless a column of zeros had no pivot: then a row is counted twice, and the case fails.
        if (lane == 0) moved = INNER + min(bitCount(~near), bitCount(~stays));
    }
    barrier();
    uint row = 0;  // of W
    if (lane < moved) row = rows.at[sources[lane]];
    for (uint column = 0; column < plane + INNER; column += LANES / 8) {
        float values[8];
        [[unroll]] for (uint i = 0; i < 8; ++i) {
            uint at = i * LANES + lane, e = at % (2 * INNER), from = column + at / (2 * INNER);
            if (e < moved && from < plane + INNER) values[i] = P.at[from * stride + sources[e]];
        }
        barrier_of_memory();
        [[unroll]] for (uint i = 0; i < 8; ++i) {
            uint at = i * LANES + lane, e = at % (2 * INNER), to = column + at / (2 * INNER);
            bool of_u = e < INNER && to >= plane + e;
            if (e < moved && to < plane + INNER) P.at[to * stride + targets[e]] = of_u ? ROW_OF_U(e, to - plane) : values[i];
        }
    }
    if (lane < moved) rows.at[targets[lane]] = row;
}
