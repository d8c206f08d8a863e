// The end of a kernel that includes matmul-gemv.glsl, which has defined COUNT, the sums of a block; PLACE_OF(i), the line
// (x) and the vector (y) of sum i of a block; and
//
//   shared ACC partial[SUBGROUPS * COUNT];

ACC total(uint i) {
    ACC sum = partial[i];
    [[unroll]] for (uint s = 1; s < SUBGROUPS; ++s) sum += partial[s * COUNT + i];
    return sum;
}

void keep(uint i, ACC sum) {
    uvec2 to = PLACE_OF(i);
    if (to.x < LINES) C.at[to.x * OF_LINE + to.y * OF_VECTOR] = store(sum);
}

void finish() {
    uint lane = place(), block = own_block();
    barrier();
    if (PARTS == 1) {
        for (uint i = lane; i < COUNT; i += LANES) keep(i, total(i));
        return;
    }
    for (uint i = lane; i < COUNT; i += LANES) {
        SUMS.at[(block * PARTS + gl_WorkGroupID.y) * COUNT + i] = total(i);
    }
    if (!last_to_arrive(ARRIVALS, block, PARTS)) return;
    for (uint i = lane; i < COUNT; i += LANES) {
        ACC sum = SUMS.at[block * PARTS * COUNT + i];
        for (uint part = 1; part < PARTS; ++part) sum += SUMS.at[(block * PARTS + part) * COUNT + i];
        keep(i, sum);
    }
}
