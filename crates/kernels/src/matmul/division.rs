//! Divisions of a block among a kernel's invocations, their requirements on tiles, and variants' tile tables.
//!
//! A work-group computes a block of C, bm×bn elements, in slabs: bk columns of A and rows of B at a time, which most
//! kernels stage in shared memory. A warp computes wm×wn elements of the block, and its parts have tm×tn.

use super::evenly::Stretches;
use crate::algorithms::product_tile::{all_divide, load_width, stored};
use crate::case::CaseOptions;
use crate::device::capability::{CooperativeMatrix, MatrixShape, vendor};
use crate::prelude::*;
use std::cmp::Reverse;

/// Elements per quad, the unit in which invocations compute and load.
const QUAD: u64 = 4;

/// Registers for addresses and indices, as estimated for kernels without and with matrices.
const ADDRESS_REGISTERS: u32 = 24;
const MATRIX_ADDRESS_REGISTERS: u32 = 36;

/// Division of a block of C among the invocations of a work-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockDivision {
    /// Each invocation computes a column of `tm` elements.
    Columns,
    /// Each invocation computes `tm`×`tn` elements in quads, four neighbors at a time.
    Quads,
    /// As `Quads`, with the invocations of a warp forming one sub-group.
    Warps,
    /// Each sub-group computes the cooperative matrices of a warp, of `tm`×`tn` each.
    Matrices(Accumulator),
    /// As `Matrices`, with two matrices of f16 halves in place of each one in f32.
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
        Bytes(match self {
            // A slab of A, padded by a quad against bank conflicts, and one of B, padded if it is transposed.
            Self::Columns | Self::Quads | Self::Warps => {
                let padding_of_b = if layout == Layout::Nt { QUAD } else { 0 };
                // Elements take at least a word, except bytes, which stay packed.
                let element = if dtype.bytes() == 1 { 1 } else { dtype.bytes().max(4) };
                element * bk * (bm + QUAD + bn + padding_of_b)
            }
            Self::Matrices(_) => {
                // Staged rows of A lie along K and those of B across it, unless stored otherwise; transposed ones lie along.
                let is_a_across = layout == Layout::Tn && !transposes(dtype);
                let is_b_along = layout == Layout::Nt || transposes(dtype);
                let a = if is_a_across { padded_rows(bk, bm, dtype) } else { padded_rows(bm, bk, dtype) };
                let b = if is_b_along { padded_rows(bn, bk, dtype) } else { padded_rows(bk, bn, dtype) };
                (a + b).max(staged_results(tile, dtype))
            }
            // The halves have layout nn, independent of the operands' layout.
            Self::Halves => {
                let a = padded_rows(bm, bk, DType::F16);
                let b = padded_rows(bk, bn, DType::F16);
                (2 * (a + b)).max(staged_results(tile, dtype))
            }
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
        if device.kind == DeviceKind::Cpu {
            return true;
        }
        let is_amd = device.vendor_id == vendor::AMD;
        match self {
            Self::Columns | Self::Quads | Self::Warps => {
                let needed = bytes.max(4) / 4 * (tm * tn + 2 * (tm + tn)) + ADDRESS_REGISTERS;
                // Compilers choose the narrowest sub-group, because the kernels require none.
                needed <= registers(invocations, None, device)
            }
            Self::Matrices(_) | Self::Halves => {
                // On AMD, operands take two registers each, and 16-bit sums take 32 bits.
                let operands_per_register = if is_amd { 2 } else { 4 };
                let are_sums_packed = self == Self::Matrices(Accumulator::Narrow) && !is_amd;
                let sums = wm * wn / lanes / if are_sums_packed { 2 } else { 1 };
                let operands = (wm + wn) / operands_per_register * 32 / lanes.min(32);
                let fetched = bk * (bm + bn) * bytes.min(2) / 4 / invocations;
                sums + operands + fetched + MATRIX_ADDRESS_REGISTERS <= registers(invocations, Some(lanes), device)
            }
            Self::Block(_) => true,
        }
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
    pub(super) fn shares_blocks(self) -> bool {
        self == Self::Warps
    }

    /// Returns the shape of the cooperative matrices, if the division uses those of sub-groups. With 32-bit sums,
    /// registers are scarce, so the narrowest B is chosen; `split` would not gain from that.
    pub(super) fn matrices(self, dtype: DType, device: &DeviceInfo) -> Option<MatrixShape> {
        match self {
            Self::Matrices(Accumulator::Wide) => Some(largest_matrix(dtype, Accumulator::Wide, device, |_| 1)),
            Self::Matrices(Accumulator::Narrow) => Some(matrix_shape(dtype, Accumulator::Narrow, device)),
            Self::Halves => Some(matrix_shape(DType::F16, Accumulator::Wide, device)),
            _ => None,
        }
    }

    /// Whether the division uses cooperative matrices.
    #[cfg(test)]
    pub(super) fn needs_matrices(self) -> bool {
        matches!(self, Self::Matrices(_) | Self::Halves | Self::Block(_))
    }

    /// Checks the tile's parts of K or sharing groups.
    fn check_parts(self, tile: &ProductTile, case: &CaseSpec) -> Result<(), String> {
        let dims = Dims::from(case.size);
        let slabs = tile.slabs(dims.k);
        if tile.k_parts != 1 && !self.cuts_k() {
            return Err("cuts K into parts, which the variant does not do".into());
        }
        if tile.k_parts != 1 && u64::from(tile.k_parts) > slabs {
            return Err(format!("cuts K into more parts than there are slabs of it, {slabs}"));
        }
        if tile.groups == 0 {
            return Ok(());
        }
        if !self.shares_blocks() {
            return Err("has groups that share blocks, which the variant does not do".into());
        }
        Stretches::check_groups(tile, dims, tile.groups)
    }

    /// Checks that the kernels support `tile` for a case on `device`.
    ///
    /// # Errors
    /// The extent that does not divide, or the exceeded limit.
    pub(super) fn check_tile(self, tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String> {
        tile.divides()?;
        let ProductTile { bm, bn, bk, tm, tn, .. } = *tile;
        let invocations = self.invocations(tile, case.subgroup_size(device));
        self.check_parts(tile, case)?;
        match self {
            Self::Columns => {}
            Self::Quads | Self::Warps => all_divide(&[
                (4, tm, "invocations compute quads of rows"),
                (4, tn, "invocations compute quads of columns"),
                (8, bk, "slabs of A are fetched in pairs of quads"),
                (invocations, bm * bk / 4, "the invocations must divide the quads of a slab of A"),
                (invocations, bk * bn / 4, "the invocations must divide the quads of a slab of B"),
            ])?,
            Self::Matrices(_) | Self::Halves => self.check_matrices(tile, case, device)?,
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

    /// Checks that the parts of a tile are the device's matrices, and that invocations can move its slabs.
    fn check_matrices(self, tile: &ProductTile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String> {
        let ProductTile { bm, bn, bk, tm, tn, .. } = *tile;
        let shape = self.matrices(case.dtype, device).expect("it has matrices");
        // Halves have layout nn.
        let is_halved = self == Self::Halves;
        let dtype = if is_halved { DType::F16 } else { case.dtype };
        let layout = if is_halved { Layout::Nn } else { case.layout };
        let invocations = self.invocations(tile, case.subgroup_size(device));
        let load_width = load_width(dtype) as u32;
        all_divide(&[
            (shape.m, tm, "parts are the device's matrices, with as many rows"),
            (tm, shape.m, "parts are the device's matrices, with as many rows"),
            (shape.n, tn, "parts are the device's matrices, with as many columns"),
            (tn, shape.n, "parts are the device's matrices, with as many columns"),
            (shape.k, bk, "a slab consists of the device's matrices"),
            (load_width, bk, "rows of a slab are moved 16 bytes at a time"),
        ])?;
        // Operands that are transposed on the way may leave invocations idle, so they need not divide.
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
        Ok(())
    }
}

/// Bytes between staged rows of kernels with matrices, so that neighboring rows begin in different memory banks.
const ROW_PADDING: u64 = 16;

/// Returns the bytes of `rows` padded rows of a slab in shared memory.
fn padded_rows(rows: u64, length: u64, dtype: DType) -> u64 {
    rows * (length * dtype.bytes() + ROW_PADDING)
}

/// Returns the bytes in which kernels with matrices stage a row of matrices per warp before they store it to C.
fn staged_results(tile: &ProductTile, dtype: DType) -> u64 {
    let [bm, bn, tm, wm, wn] = [tile.bm, tile.bn, tile.tm, tile.wm.max(1), tile.wn.max(1)].map(u64::from);
    (bm / wm) * (bn / wn) * tm * (wn * stored(dtype, tile).bytes() + ROW_PADDING)
}

/// Returns the 32-bit registers per invocation of a group; `subgroup` is the required sub-group size, if any. Vulkan
/// does not report them. A core of AMD and NVIDIA has 64 Ki; Qualcomm's and Apple's (Mesa by Honeykrisp's vendor id)
/// have fewer. Intel's threads have 128, as wide as the narrowest sub-group, and need nine of them themselves.
pub(super) fn registers(invocations: u32, subgroup: Option<u32>, device: &DeviceInfo) -> u32 {
    const INTEL_REGISTERS: u32 = 128 - 9;
    match device.vendor_id {
        vendor::INTEL => subgroup.map_or(INTEL_REGISTERS, |lanes| INTEL_REGISTERS * device.subgroup.min_size / lanes),
        vendor::QUALCOMM | vendor::APPLE | vendor::MESA => (48 << 10) / invocations,
        _ => (64 << 10) / invocations,
    }
}

/// Whether `coopmat` transposes an operand stored across K on its way to shared memory: see `matmul-parcels.glsl`.
fn transposes(dtype: DType) -> bool {
    dtype == DType::I8
}

/// Returns the presumably fastest cooperative-matrix shape of sub-group scope: the largest with rows in whole 16-byte
/// pieces, the unit of kernels' copies. Without any, returns the shape of the first devices that had some, so that the
/// case can report what is missing.
pub(crate) fn matrix_shape(dtype: DType, accumulator: Accumulator, device: &DeviceInfo) -> MatrixShape {
    largest_matrix(dtype, accumulator, device, |matrix| matrix.n)
}

/// Returns the shape of [`matrix_shape`], where `columns` returns the number of columns to assume of a shape: if it is
/// the same for all, of shapes with equal rows and depth the one with the fewest columns is the largest.
fn largest_matrix(
    dtype: DType,
    accumulator: Accumulator,
    device: &DeviceInfo,
    columns: fn(&CooperativeMatrix) -> u32,
) -> MatrixShape {
    let input = dtype.name();
    let accumulator = accumulator.name(dtype);
    let load_width = load_width(dtype) as u32;
    let usable = device.cooperative_matrices.iter().filter(|matrix| {
        (matrix.input.as_str(), matrix.accumulator.as_str(), matrix.scope.as_str()) == (input, accumulator, "subgroup")
            && matrix.k.is_multiple_of(load_width)
            && matrix.n.is_multiple_of(load_width)
    });
    // Among shapes of equal volume, the most square has the fewest components to load.
    let largest = usable.max_by_key(|matrix| {
        let columns = columns(matrix);
        (matrix.m * columns * matrix.k, matrix.m.min(columns), Reverse(matrix.n))
    });
    let [m, n, k] = largest.map_or([16, 16, 32 / dtype.bytes() as u32], |matrix| [matrix.m, matrix.n, matrix.k]);
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
        let shape = self.division.matrices(dtype, device);
        let mut chosen = tiles.to_vec();
        chosen.retain(|tile| self.division.fits_registers(tile, case, device));
        if chosen.is_empty() {
            let smallest = tiles.iter().map(|tile| tile.bm * tile.bn).min();
            chosen = tiles.iter().copied().filter(|tile| Some(tile.bm * tile.bn) == smallest).collect();
        }
        chosen.into_iter().map(move |tile| match &shape {
            Some(shape) => ProductTile { tm: shape.m, tn: shape.n, ..tile },
            None => tile,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let MatrixShape { m, n, k, .. } = division.matrices(dtype, &device).expect("matrices");
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
        let check_tile =
            |tile: ProductTile, device: &DeviceInfo| BlockDivision::Warps.check_tile(&tile, &case(64), device);
        assert_eq!(check_tile(LARGE, &device), Ok(()));
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
            assert_eq!(check_tile(tile, &device), Err(expected.into()));
        }
        device.limits.group_invocations = 128;
        let expected = "needs 256 invocations; the device has at most 128 in a group";
        assert_eq!(check_tile(LARGE, &device), Err(expected.into()));
        device.limits.group_invocations = 256;
        device.limits.shared_memory = Bytes(1 << 14);
        let expected = "needs 16.2 KiB of shared memory; the device has 16 KiB";
        assert_eq!(check_tile(LARGE, &device), Err(expected.into()));
    }

    #[test]
    fn a_group_for_which_a_core_lacks_registers_is_no_tile() {
        let device_of = |vendor_id, lanes| {
            let mut device = gpu();
            device.vendor_id = vendor_id;
            device.subgroup.size = lanes;
            device.subgroup.min_size = lanes;
            device
        };
        let fits = |division: BlockDivision, tile: ProductTile, dtype, device: &DeviceInfo| {
            division.fits_registers(&tile, &case(4096).with(|options| options.dtype = dtype), device)
        };
        let [amd, nvidia] = [device_of(vendor::AMD, 64), device_of(vendor::NVIDIA, 32)];
        // 512 invocations with 64 sums each: of f64, 1036 registers spilled on RDNA 2; of f32, 11 on an M1 and 70 on an
        // Adreno 740.
        let lanes = ProductTile::new([128, 256, 32], [64, 32], [8, 8]);
        for (device, expected) in [
            (&amd, true),
            (&nvidia, true),
            (&device_of(vendor::QUALCOMM, 128), false),
            (&device_of(vendor::MESA, 32), false),
        ] {
            assert_eq!(fits(BlockDivision::Warps, lanes, DType::F32, device), expected, "{:x}", device.vendor_id);
            assert!(!fits(BlockDivision::Warps, lanes, DType::F64, device), "{:x}", device.vendor_id);
            assert!(fits(BlockDivision::Warps, ProductTile { bn: 128, ..lanes }, DType::F32, device));
        }
        // Sub-groups twice as wide double the invocations: 37 registers spilled on RDNA 3.5.
        let wide = BlockDivision::Matrices(Accumulator::Wide);
        let matrices = ProductTile::new([128, 256, 32], [64, 64], [16, 16]);
        assert!(!fits(wide, matrices, DType::F16, &amd));
        assert!(fits(wide, matrices, DType::F16, &nvidia));
        // Xe2: 106 registers spilled with 64 sums and 1464 with 64×64 per sub-group; none with 32 sums, or 16×16.
        let intel = device_of(vendor::INTEL, 16);
        assert!(!fits(BlockDivision::Quads, ProductTile::flat([128, 128, 32], [8, 8]), DType::F32, &intel));
        assert!(fits(BlockDivision::Quads, ProductTile::flat([64, 64, 32], [4, 8]), DType::F32, &intel));
        assert!(!fits(wide, matrices, DType::F16, &intel));
        assert!(fits(wide, ProductTile::new([32, 32, 32], [16, 16], [8, 16]), DType::F16, &intel));
        assert!(fits(BlockDivision::Warps, lanes, DType::F64, &software_device()));
    }
}
