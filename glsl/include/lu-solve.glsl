// Substitution in a triangular system of order n: L·x = v from the first row on (SIDE 0), U·x = v from the last one on
// (SIDE 1). Positions count rows and columns in the order in which they are solved for, so that both are one loop.
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // 256
layout(constant_id = 2) const uint SIDE = 0;
// Whether rows of the matrix and of v are where a list says, not where they are solved for.
layout(constant_id = 3) const uint PERMUTED = 0;
// Whether what the block before contributes to a block is yet to be taken from it.
layout(constant_id = 4) const uint CHAINED = 0;

const uint NB = 128;            // positions of a block
const uint PARTS = NB / INNER;

// Layout of a block as `solve-prepare` packs it for `solve-block`, in quads of columns, row after row within a quad: the block's
// columns in the preceding block, its columns in itself, and the inverses of its diagonal blocks of 32 positions.
const uint QUADS = INNER / 4;   // of the columns of a part
const uint OWN = NB / 4 * NB;
const uint INVERSES = 2 * OWN;
const uint PACKED = INVERSES + PARTS * QUADS * INNER;

// The row, or column, at a position; `n` is an argument.
#define AT(position) (SIDE == 0 ? (position) : n - 1 - (position))
