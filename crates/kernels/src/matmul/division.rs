//! Divisions of a block among a kernel's invocations, their requirements on tiles, and variants' tile tables.

use super::evenly::Stretches;
use crate::algorithms::CaseSpec;
use crate::algorithms::product_tile::Dims;
use crate::algorithms::product_tile::{ProductTile, all_divide, load_width, stored};
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::units::Bytes;
use crate::case::CaseOptions;
use crate::device::capability::{Accumulator, CooperativeMatrix, DeviceInfo, DeviceKind, MatrixShape, vendor};
use std::cmp::Reverse;

/// Division of a block of C among the invocations of a work-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockDivision {
    /// Each invocation computes a column of `tm` elements.
    Columns,
    /// Each invocation computes quads of elements.
    Quads,
    /// Quads, in warps as large as sub-groups.
    Warps,
    /// Each sub-group computes cooperative matrices of `tm`×`tn`.
    Matrices(Accumulator),
    /// Cooperative matrices of f16, two in place of each f32 one.
    Halves,
    /// One cooperative matrix for the block, held by as many sub-groups as it has warps.
    Block(Accumulator),
}

impl BlockDivision {
    /// Returns the invocations of a work-group.
    pub(super) fn invocations(self, tile: &ProductTile, lanes: u32) -> u32 {
        match self {
            Self::Columns | Self::Quads | Self::Warps => (tile.bm / tile.tm.max(1)) * (tile.bn / tile.tn.max(1)),
            Self::Matrices(_) | Self::Halves | Self::Block(_) => {
                lanes * (tile.bm / tile.wm.max(1)) * (tile.bn / tile.wn.max(1))
            }
        }
    }

    /// Returns the shared memory of a work-group, for the case's element type and layout.
    pub(super) fn shared_bytes(self, tile: &ProductTile, case: &CaseSpec) -> Bytes {
        let CaseOptions { dtype, layout, .. } = case.options;
        let [bm, bn, bk] = [tile.bm, tile.bn, tile.bk].map(u64::from);
        // A slab of both operands, each row (or column) padded by 16 bytes; reused at the end for a row of matrices per
        // warp.
        let slab = |rows: u64, length: u64, dtype: DType| rows * (length * dtype.bytes() + 16);
        let along = |edge, dtype| slab(edge, bk, dtype);
        let across = |edge, dtype| slab(bk, edge, dtype);
        let slabs = || {
            let a = if layout == Layout::Tn && !transposes(dtype) { across(bm, dtype) } else { along(bm, dtype) };
            let b = if layout == Layout::Nt || transposes(dtype) { along(bn, dtype) } else { across(bn, dtype) };
            a + b
        };
        let staged = || {
            let [tm, wm, wn] = [tile.tm, tile.wm.max(1), tile.wn.max(1)].map(u64::from);
            (bm / wm) * (bn / wn) * tm * (wn * stored(dtype, tile).bytes() + 16)
        };
        Bytes(match self {
            // A slab of A, padded by a quad as in `tiled`, and one of B, padded if it is transposed.
            Self::Columns | Self::Quads | Self::Warps => {
                let padding = if layout == Layout::Nt { 4 } else { 0 };
                // Elements take at least a word, except bytes, which stay packed.
                let element = if dtype.bytes() == 1 { 1 } else { dtype.bytes().max(4) };
                element * bk * (bm + 4 + bn + padding)
            }
            Self::Matrices(_) => slabs().max(staged()),
            // The halves have layout nn, independent of the operands' layout.
            Self::Halves => (2 * (along(bm, DType::F16) + across(bn, DType::F16))).max(staged()),
            Self::Block(_) => 0,
        })
    }

    /// Whether a device probably has registers for a work-group: each invocation keeps its sums, operands, loads in
    /// flight and addresses. Otherwise compilers spill.
    fn fits_registers(self, tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> bool {
        let ProductTile { bm, bn, bk, wm, wn, tm, tn, .. } = *tile;
        let lanes = case.subgroup_size(device).max(1);
        let bytes = case.dtype.bytes() as u32;
        let invocations = self.invocations(tile, lanes).max(1);
        // On AMD, operands take two registers each, and 16-bit sums take 32 bits.
        let (operands, halves) = if device.vendor_id == vendor::AMD { (2, 1) } else { (4, 2) };
        let matrices = |sums: u32| {
            let fetched = bk * (bm + bn) * bytes.min(2) / 4 / invocations;
            sums + (wm + wn) / operands * 32 / lanes.min(32) + fetched + 36
        };
        let needed = match self {
            Self::Columns | Self::Quads | Self::Warps => bytes.max(4) / 4 * (tm * tn + 2 * (tm + tn)) + 24,
            Self::Matrices(Accumulator::Narrow) => matrices(wm * wn / lanes / halves),
            Self::Matrices(Accumulator::Wide) | Self::Halves => matrices(wm * wn / lanes),
            Self::Block(_) => 0,
        };
        // Compilers choose the narrowest sub-group unless one is required, as it is for matrices.
        let required = matches!(self, Self::Matrices(_) | Self::Halves);
        device.kind == DeviceKind::Cpu || needed <= registers(invocations, required.then_some(lanes), device)
    }

    /// Whether the model predicts this division well enough to choose a tile.
    pub(super) fn is_modelled(self, device: &DeviceInfo) -> bool {
        device.kind != DeviceKind::Cpu && matches!(self, Self::Warps | Self::Matrices(Accumulator::Wide))
    }

    /// Whether the kernels can split K into parts.
    pub(super) fn cuts_k(self) -> bool {
        matches!(self, Self::Matrices(_) | Self::Halves)
    }

    /// Whether the kernels' groups can share blocks evenly.
    pub(super) fn shares(self) -> bool {
        self == Self::Warps
    }

    /// Returns element type and shape of the cooperative matrices, if the division uses them. With 32-bit sums,
    /// registers are scarce, so the narrowest B is chosen; `split` would not gain from that.
    pub(super) fn matrices(self, dtype: DType, device: &DeviceInfo) -> Option<(DType, MatrixShape)> {
        match self {
            Self::Matrices(Accumulator::Wide) => Some((dtype, largest_matrix(dtype, Accumulator::Wide, device, |_| 1))),
            Self::Matrices(Accumulator::Narrow) => Some((dtype, matrix_shape(dtype, Accumulator::Narrow, device))),
            Self::Halves => Some((DType::F16, matrix_shape(DType::F16, Accumulator::Wide, device))),
            _ => None,
        }
    }

    /// Whether the division uses cooperative matrices.
    #[cfg(test)]
    pub(super) fn needs_matrices(self) -> bool {
        matches!(self, Self::Matrices(_) | Self::Halves | Self::Block(_))
    }

    /// Checks the tile's parts of K or sharing groups.
    fn legal_parts(self, tile: &ProductTile, case: &CaseSpec) -> Result<(), String> {
        let dims = Dims::from(case.size);
        let slabs = tile.slabs(dims.k);
        match tile.k_parts {
            1 => {}
            _ if !self.cuts_k() => return Err("cuts K into parts, which the variant does not do".into()),
            parts if u64::from(parts) > slabs => {
                return Err(format!("cuts K into more parts than there are slabs of it, {slabs}"));
            }
            _ => {}
        }
        match tile.groups {
            0 => Ok(()),
            _ if !self.shares() => Err("has groups that share blocks, which the variant does not do".into()),
            groups => Stretches::legal(tile, dims, groups),
        }
    }

    /// Checks that the kernels support `tile` for a case on `device`.
    ///
    /// # Errors
    /// The extent that does not divide, or the exceeded limit.
    pub(super) fn legal(self, tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String> {
        tile.divides()?;
        let ProductTile { bm, bn, bk, tm, tn, .. } = *tile;
        let invocations = self.invocations(tile, case.subgroup_size(device));
        self.legal_parts(tile, case)?;
        match self {
            Self::Columns => {}
            Self::Quads | Self::Warps => all_divide(&[
                (4, tm, "invocations compute quads of rows"),
                (4, tn, "invocations compute quads of columns"),
                (8, bk, "slabs of A are fetched in pairs of quads"),
                (invocations, bm * bk / 4, "the invocations must divide the quads of a slab of A"),
                (invocations, bk * bn / 4, "the invocations must divide the quads of a slab of B"),
            ])?,
            Self::Matrices(_) | Self::Halves => {
                let (dtype, shape) = self.matrices(case.dtype, device).expect("it has matrices");
                let load_width = load_width(dtype) as u32;
                all_divide(&[
                    (shape.m, tm, "parts are the device's matrices, with as many rows"),
                    (tm, shape.m, "parts are the device's matrices, with as many rows"),
                    (shape.n, tn, "parts are the device's matrices, with as many columns"),
                    (tn, shape.n, "parts are the device's matrices, with as many columns"),
                    (shape.k, bk, "a slab consists of the device's matrices"),
                    (load_width, bk, "rows of a slab are moved 16 bytes at a time"),
                ])?;
                // Operands that are transposed on the way may leave invocations idle, so they need not divide. Halves
                // have layout nn.
                let layout = if self == Self::Halves { Layout::Nn } else { case.layout };
                if layout != Layout::Tn || !transposes(dtype) {
                    all_divide(&[
                        (load_width, bm, "rows of A are moved 16 bytes at a time"),
                        (invocations, bm * bk / load_width, "the invocations must divide the pieces of a slab of A"),
                    ])?;
                }
                if layout == Layout::Nt || !transposes(dtype) {
                    all_divide(&[
                        (load_width, bn, "rows of B are moved 16 bytes at a time"),
                        (invocations, bk * bn / load_width, "the invocations must divide the pieces of a slab of B"),
                    ])?;
                }
            }
            Self::Block(accumulator) => {
                let shape = block_shape(tile, case.dtype, accumulator, invocations);
                if !device.multiplies(&shape) {
                    return Err(format!("the device has no cooperative matrices of {shape}"));
                }
            }
        }
        let limits = &device.limits;
        if invocations > limits.group_invocations.min(limits.group_size[0]) {
            return Err(format!(
                "needs {invocations} invocations; the device has at most {} in a group",
                limits.group_invocations
            ));
        }
        let shared = self.shared_bytes(tile, case);
        if shared > limits.shared_memory {
            return Err(format!("needs {shared} of shared memory; the device has {}", limits.shared_memory));
        }
        Ok(())
    }
}

/// Returns the 32-bit registers per invocation of a group; `subgroup` is the required sub-group size, if any. Vulkan
/// does not report them. A core of AMD and NVIDIA has 64 Ki; Qualcomm's and Apple's (Mesa by Honeykrisp's vendor id)
/// have fewer. Intel's threads have 128, as wide as the narrowest sub-group, some of which they need themselves.
pub(super) fn registers(invocations: u32, subgroup: Option<u32>, device: &DeviceInfo) -> u32 {
    match device.vendor_id {
        vendor::INTEL => subgroup.map_or(119, |lanes| 119 * device.subgroup.min_size / lanes),
        vendor::QUALCOMM | vendor::APPLE | vendor::MESA => (48 << 10) / invocations,
        _ => (64 << 10) / invocations,
    }
}

/// Whether `coopmat` transposes an operand stored across K on its way to shared memory: see `matmul-parcels.glsl`.
pub(super) fn transposes(dtype: DType) -> bool {
    dtype == DType::I8
}

/// Returns the presumably fastest cooperative-matrix shape of sub-group scope: the largest with rows in whole 16-byte
/// pieces, the unit of kernels' copies. Without any, returns the shape of the first devices that had some, so that the
/// case can report what is missing.
pub(crate) fn matrix_shape(dtype: DType, accumulator: Accumulator, device: &DeviceInfo) -> MatrixShape {
    largest_matrix(dtype, accumulator, device, |own| own.n)
}

/// Returns the largest such shape, with its columns weighted by `counted`.
fn largest_matrix(
    dtype: DType,
    accumulator: Accumulator,
    device: &DeviceInfo,
    counted: fn(&CooperativeMatrix) -> u32,
) -> MatrixShape {
    let input = dtype.name();
    let accumulator = accumulator.name(dtype);
    let load_width = load_width(dtype) as u32;
    let own = device.cooperative_matrices.iter().filter(|own| {
        (own.input.as_str(), own.accumulator.as_str(), own.scope.as_str()) == (input, accumulator, "subgroup")
            && own.k.is_multiple_of(load_width)
            && own.n.is_multiple_of(load_width)
    });
    // Among shapes of equal volume, the most square has the fewest components to load.
    let largest = own.max_by_key(|own| {
        let columns = counted(own);
        (own.m * columns * own.k, own.m.min(columns), Reverse(own.n))
    });
    let [m, n, k] = largest.map_or([16, 16, 32 / dtype.bytes() as u32], |own| [own.m, own.n, own.k]);
    MatrixShape { m, n, k, input, accumulator, workgroup: None }
}

/// Returns the cooperative matrix of work-group scope that corresponds to a tile.
pub(super) fn block_shape(tile: &ProductTile, dtype: DType, accumulator: Accumulator, invocations: u32) -> MatrixShape {
    let input = dtype.name();
    let accumulator = accumulator.name(dtype);
    MatrixShape { m: tile.bm, n: tile.bn, k: tile.bk, input, accumulator, workgroup: Some(invocations) }
}

/// Tiles of a variant, largest first.
pub(super) struct TileTable {
    /// Division that its kernel uses.
    pub(super) division: BlockDivision,
    /// Tiles for GPUs.
    pub(super) gpu: &'static [ProductTile],
    /// Tiles for software devices, whose shared memory is ordinary memory: larger tiles per invocation are faster, but
    /// take seconds to compile.
    pub(super) software: &'static [ProductTile],
    /// Tiles for 1-byte elements on any device; if empty, the other tables apply.
    pub(super) bytes: &'static [ProductTile],
}

impl TileTable {
    /// Iterates over the tiles for a device: those for which it has registers, or else the smallest ones. Cooperative
    /// matrices get the device's shape.
    pub(super) fn tiles(&self, case: &CaseSpec, device: &DeviceInfo) -> impl Iterator<Item = ProductTile> {
        let dtype = case.dtype;
        let tiles = match device.kind {
            _ if dtype.bytes() == 1 && !self.bytes.is_empty() => self.bytes,
            DeviceKind::Cpu => self.software,
            _ => self.gpu,
        };
        let part = self.division.matrices(dtype, device);
        let fits = |tile: &ProductTile| self.division.fits_registers(tile, case, device);
        let any = tiles.iter().any(fits);
        let smallest = tiles.iter().map(|tile| tile.bm * tile.bn).min();
        let tiles = tiles.iter().filter(move |tile| if any { fits(tile) } else { Some(tile.bm * tile.bn) == smallest });
        tiles.map(move |tile| part.map_or(*tile, |(_, part)| ProductTile { tm: part.m, tn: part.n, ..*tile }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::size::Size;
    use crate::device::fixture::{gpu, matrix, software_device};
    use crate::matmul::MATMUL;

    const LARGE: ProductTile = ProductTile::new([128, 128, 16], [64, 32], [8, 8]);
    fn case(n: u64) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32)
    }

    #[test]
    fn matrices_with_rows_of_less_than_16_bytes_are_passed_over() {
        let mut device = software_device();
        // Shapes of llvmpipe 26.2.
        device.cooperative_matrices = vec![matrix([8; 3], "f16", "f32"), matrix([8; 3], "i8", "i32")];
        let extents = |dtype, device: &DeviceInfo| {
            let MatrixShape { m, n, k, .. } = matrix_shape(dtype, Accumulator::Wide, device);
            [m, n, k]
        };
        assert_eq!(extents(DType::F16, &device), [8, 8, 8]);
        assert_eq!(extents(DType::I8, &device), [16, 16, 32], "what it lacks");
        device.cooperative_matrices.push(matrix([16; 3], "i8", "i32"));
        assert_eq!(extents(DType::I8, &device), [16, 16, 16]);
    }

    #[test]
    fn matrices_are_the_largest_and_with_sums_of_32_bits_the_narrowest_of_these() {
        let mut device = software_device();
        // Shapes of an H100's driver.
        device.cooperative_matrices = [("f16", "f32"), ("f16", "f16"), ("i8", "i32")]
            .into_iter()
            .flat_map(|(input, accumulator)| {
                let depth = if input == "i8" { 32 } else { 16 };
                [[16, 16, depth], [16, 8, depth], [16, 8, depth / 2]].map(|extents| matrix(extents, input, accumulator))
            })
            .collect();
        let extents = |division: BlockDivision, dtype| {
            let (_, MatrixShape { m, n, k, .. }) = division.matrices(dtype, &device).expect("matrices");
            [m, n, k]
        };
        assert_eq!(extents(BlockDivision::Matrices(Accumulator::Wide), DType::F16), [16, 8, 16]);
        assert_eq!(extents(BlockDivision::Matrices(Accumulator::Narrow), DType::F16), [16, 16, 16]);
        assert_eq!(extents(BlockDivision::Halves, DType::F32), [16, 16, 16]);
        let bytes = extents(BlockDivision::Matrices(Accumulator::Wide), DType::I8);
        assert_eq!(bytes, [16, 16, 32], "rows of 8 bytes are passed over");
    }

    #[test]
    fn a_tile_that_does_not_divide_or_fit_says_why() {
        let mut device = software_device();
        let legal = |tile: ProductTile, device: &DeviceInfo| BlockDivision::Warps.legal(&tile, &case(64), device);
        assert_eq!(legal(LARGE, &device), Ok(()));
        assert_eq!(BlockDivision::Warps.invocations(&LARGE, 8), 256);
        assert_eq!(BlockDivision::Warps.shared_bytes(&LARGE, &case(1)), Bytes(16 * (132 + 128) * 4));
        for (tile, expected) in [
            (
                ProductTile { wm: 48, ..LARGE },
                "the rows of a warp must divide those of the work-group: 48 does not divide 128",
            ),
            (ProductTile { bk: 12, ..LARGE }, "slabs of A are fetched in pairs of quads: 8 does not divide 12"),
            (ProductTile { tm: 0, ..LARGE }, "the rows of a part must divide those of its warp: 0 does not divide 64"),
            (ProductTile { tm: 2, ..LARGE }, "invocations compute quads of rows: 4 does not divide 2"),
            (
                ProductTile { bk: 8, tm: 4, tn: 4, ..LARGE },
                "the invocations must divide the quads of a slab of A: 1024 does not divide 256",
            ),
        ] {
            assert_eq!(legal(tile, &device), Err(expected.into()));
        }
        device.limits.group_invocations = 128;
        let expected = "needs 256 invocations; the device has at most 128 in a group";
        assert_eq!(legal(LARGE, &device), Err(expected.into()));
        device.limits.group_invocations = 256;
        device.limits.shared_memory = Bytes(1 << 14);
        let expected = "needs 16.2 KiB of shared memory; the device has 16 KiB";
        assert_eq!(legal(LARGE, &device), Err(expected.into()));
    }

    #[test]
    fn a_group_for_which_a_core_lacks_registers_is_no_tile() {
        let of = |vendor_id, lanes| {
            let mut device = gpu();
            (device.vendor_id, device.subgroup.size) = (vendor_id, lanes);
            device.subgroup.min_size = lanes;
            device
        };
        let fits = |division: BlockDivision, [block, warp, part]: [&[u32]; 3], dtype, device: &DeviceInfo| {
            let tile = ProductTile::new([block[0], block[1], 32], [warp[0], warp[1]], [part[0], part[1]]);
            division.fits_registers(&tile, &case(4096).with(|options| options.dtype = dtype), device)
        };
        let [amd, nvidia] = [of(vendor::AMD, 64), of(vendor::NVIDIA, 32)];
        // 512 invocations with 64 sums each: of f64, 1036 registers spilled on RDNA 2; of f32, 11 on an M1 and 70 on an
        // Adreno 740.
        let lanes: [&[u32]; 3] = [&[128, 256], &[64, 32], &[8, 8]];
        for (device, expected) in
            [(&amd, true), (&nvidia, true), (&of(vendor::QUALCOMM, 128), false), (&of(vendor::MESA, 32), false)]
        {
            assert_eq!(fits(BlockDivision::Warps, lanes, DType::F32, device), expected, "{:x}", device.vendor_id);
            assert!(!fits(BlockDivision::Warps, lanes, DType::F64, device), "{:x}", device.vendor_id);
            assert!(fits(BlockDivision::Warps, [&[128, 128], &[64, 32], &[8, 8]], DType::F32, device));
        }
        // Sub-groups twice as wide double the invocations: 37 registers spilled on RDNA 3.5.
        let matrices: [&[u32]; 3] = [&[128, 256], &[64, 64], &[16, 16]];
        let fit = [&amd, &nvidia]
            .map(|device| fits(BlockDivision::Matrices(Accumulator::Wide), matrices, DType::F16, device));
        assert_eq!(fit, [false, true]);
        // Xe2: 106 registers spilled with 64 sums and 1464 with 64×64 per sub-group; none with 32 sums, or 16×16.
        let intel = of(vendor::INTEL, 16);
        assert!(!fits(BlockDivision::Quads, [&[128, 128], &[128, 128], &[8, 8]], DType::F32, &intel));
        assert!(fits(BlockDivision::Quads, [&[64, 64], &[64, 64], &[4, 8]], DType::F32, &intel));
        assert!(!fits(BlockDivision::Matrices(Accumulator::Wide), matrices, DType::F16, &intel));
        assert!(fits(BlockDivision::Matrices(Accumulator::Wide), [&[32, 32], &[16, 16], &[8, 16]], DType::F16, &intel));
        assert!(fits(BlockDivision::Warps, lanes, DType::F64, &software_device()));
    }
}
