// Work-groups that share the blocks of C evenly: the slabs of all blocks, one block after the other, are one sequence, of which each
// group has an equal stretch (M. Osama et al., "Stream-K", PPoPP 2023). A block that one group has as a whole it stores. Of
// others each group leaves its sums in a slot: of the first of its blocks in slot `group`, of its last in GROUPS + group, for between
// them all are whole.
//
// Include it where M, N, K, GROUPS, BM, BN and BK are known. It is `Stretches` of src/algorithms/matmul/evenly.rs.
layout(constant_id = 11) const uint STRIP = 8;  // block rows of a strip

#define SLABS ((K + BK - 1) / BK)
#define BLOCKS_DOWN ((M + BM - 1) / BM)
#define BLOCKS_ACROSS ((N + BN - 1) / BN)

#define ALL_SLABS (BLOCKS_DOWN * BLOCKS_ACROSS * SLABS)

// The first slab of a group's stretch. Where groups are a multiple of blocks, stretches end with blocks.
uint first_of(uint group) { return group * ALL_SLABS / GROUPS; }

// The group that has a slab.
uint group_of(uint slab) { return ((slab + 1) * GROUPS - 1) / ALL_SLABS; }

// The row and the column of a block in the grid of blocks. They follow one another in strips of block rows, column by column in each, as
// the groups of a grid in strips do (see tiled.comp).
uvec2 block_at(uint block) {
    uint strip = block / (STRIP * BLOCKS_ACROSS), in_strip = block % (STRIP * BLOCKS_ACROSS);
    uint height = min(STRIP, BLOCKS_DOWN - strip * STRIP);
    return uvec2(strip * STRIP + in_strip % height, in_strip / height);
}
