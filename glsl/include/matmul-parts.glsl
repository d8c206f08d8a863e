// K in one piece or, with IN_PARTS, in PARTS parts (an argument), so that a product with few blocks and a deep K fills a device. Each part
// leaves its sums in memory, all elements of C one part after the other, and sum-parts.comp adds them up in the order of K.
//
// Strips of the grid (see tiled.comp) then begin anew with each part along z. Include it where M, N, K and BK are
// known; without a K define SLABS_OF_K. It names
//
//   STRIP                 the strip of block rows of this work-group
//   FIRST_SLAB, END_SLAB  the slabs of its part of K, the second exclusive
//   FIRST_K, END_K        the same in rows of B
//   NEXT_K(k, end)        where the slab from k on is fetched, END_K being `end`: behind the last of a part, where there is
//                         nothing to fetch
//   FIRST_OF_C            where the sums of its part begin in C
#if !defined(SLABS_OF_K)
#define SLABS_OF_K ((K + BK - 1) / BK)
#endif
#if defined(IN_PARTS)
uint strips() { return gl_NumWorkGroups.z / PARTS; }
uint part() { return gl_WorkGroupID.z / strips(); }

// The first slab of a part. Parts differ by one slab at most.
uint first_slab(uint part) {
    uint slabs = SLABS_OF_K;
    return slabs / PARTS * part + min(part, slabs % PARTS);
}

#define STRIP (gl_WorkGroupID.z % strips())
#define FIRST_SLAB first_slab(part())
#define END_SLAB first_slab(part() + 1)
#define FIRST_K (FIRST_SLAB * BK)
#define END_K min(K, END_SLAB * BK)
#define NEXT_K(k, end) ((k) < end ? (k) : K)
// Each part begins at a multiple of four elements, as its rows do where rows of C do.
#define FIRST_OF_C (part() * ((M * N + 3) & ~3u))
#else
#define STRIP gl_WorkGroupID.z
#define FIRST_SLAB 0
#define END_SLAB (SLABS_OF_K)
#define FIRST_K 0
#define END_K K
#define NEXT_K(k, end) (k)
#define FIRST_OF_C 0
#endif
