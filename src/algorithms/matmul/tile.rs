//! How a register-tiled product is cut up, and which cut a device gets for a size.

use super::evenly::Stretches;
use super::{Dims, auto};
use crate::algorithms::{self, CaseOptions, CaseSpec};
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::basis::units::Bytes;
use crate::device::capability::{Accumulator, CooperativeMatrix, DeviceInfo, DeviceKind, MatrixScope, MatrixShape};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// The extents of a register-tiled product, in elements.
///
/// A work-group computes a `bm`×`bn` block of C from slabs of `bk` columns of A and `bk` rows of B. Within it a
/// warp (as many neighbouring invocations as that takes) owns `wm`×`wn` elements in parts of `tm`×`tn`: those of an
/// invocation, or a cooperative matrix. Kernels without warp tiles have `wm` = `bm` and `wn` = `bn`.
///
/// Where few blocks would leave cores idle, K is cut too, into `k_parts`: a work-group for each then sums up its part of K,
/// and a second pass adds the parts up. Or so many `groups` share the blocks evenly, each an equal stretch of the slabs of all blocks,
/// and a second pass adds up what several have of a block.
///
/// In files it is text, `128x128x16/64x32/8x8`: block, warp, part; `/4` behind it for four parts of K, `/g264` for 264 groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tile {
    /// Rows of C that a work-group computes.
    pub bm: u32,
    /// Columns of C that a work-group computes.
    pub bn: u32,
    /// Columns of A, and rows of B, that are in shared memory at a time.
    pub bk: u32,
    /// Rows of C that a warp computes.
    pub wm: u32,
    /// Columns of C that a warp computes.
    pub wn: u32,
    /// Rows of a part.
    pub tm: u32,
    /// Columns of a part.
    pub tn: u32,
    /// Parts of K.
    pub k_parts: u32,
    /// Work-groups that share the blocks evenly; none where each block, or part of K of it, has one of its own.
    pub groups: u32,
}

impl Tile {
    /// A tile of these blocks, warps and parts: K in one piece, each block of one group.
    #[must_use]
    pub const fn new([bm, bn, bk]: [u32; 3], [wm, wn]: [u32; 2], [tm, tn]: [u32; 2]) -> Self {
        Self { bm, bn, bk, wm, wn, tm, tn, k_parts: 1, groups: 0 }
    }

    /// A tile without warp tiles.
    #[must_use]
    pub const fn flat([bm, bn, bk]: [u32; 3], part: [u32; 2]) -> Self {
        Self::new([bm, bn, bk], [bm, bn], part)
    }

    /// The same tile over `k_parts` of K.
    #[must_use]
    pub(crate) const fn over(self, k_parts: u32) -> Self {
        Self { k_parts, ..self }
    }

    /// The same tile, whose blocks are shared by so many groups.
    #[must_use]
    pub(crate) const fn shared_by(self, groups: u32) -> Self {
        Self { groups, ..self }
    }

    /// Whether a second pass adds up sums.
    pub(crate) const fn takes_two_passes(&self) -> bool {
        self.k_parts > 1 || self.groups > 0
    }

    /// Blocks of a product of these extents, along the columns and the rows of C.
    #[must_use]
    pub(crate) fn blocks(&self, dims: Dims) -> [u64; 2] {
        [dims.n.div_ceil(u64::from(self.bn)), dims.m.div_ceil(u64::from(self.bm))]
    }

    /// Checks that its parts divide one another, as every kernel needs.
    ///
    /// # Errors
    /// What does not divide.
    pub fn divides(&self) -> Result<(), String> {
        let Self { bm, bn, bk, wm, wn, tm, tn, k_parts, groups } = *self;
        // Larger ones exceed every device, and overflow in products.
        if let Some(extent) = [bm, bn, bk, k_parts].into_iter().find(|extent| *extent > MOST_EXTENT) {
            return Err(format!("{extent} is more than a tile can have; the most is {MOST_EXTENT}"));
        }
        if groups > MOST_GROUPS {
            return Err(format!("{groups} groups are more than can share blocks; the most is {MOST_GROUPS}"));
        }
        all_divide(&[
            (tm, wm, "the rows of a part must divide those of its warp"),
            (tn, wn, "the columns of a part must divide those of its warp"),
            (wm, bm, "the rows of a warp must divide those of the work-group"),
            (wn, bn, "the columns of a warp must divide those of the work-group"),
            (1, bk, "a slab has columns"),
            (1, k_parts, "K is one part at least"),
        ])
    }

    /// Slabs along `k`.
    pub(super) fn slabs(&self, k: u64) -> u64 {
        k.div_ceil(u64::from(self.bk.max(1)))
    }
}

/// Checks pairs of a part and its whole; the text of the first part that does not divide its whole is the error.
fn all_divide(pairs: &[(u32, u32, &str)]) -> Result<(), String> {
    let fits = |part: u32, whole: u32| part > 0 && whole > 0 && whole.is_multiple_of(part);
    match pairs.iter().find(|(part, whole, _)| !fits(*part, *whole)) {
        Some((part, whole, what)) => Err(format!("{what}: {part} does not divide {whole}")),
        None => Ok(()),
    }
}

/// The largest extent of a block that makes sense on any device.
const MOST_EXTENT: u32 = 4096;

/// The most groups that share blocks: those of one dimension of a grid on any device.
const MOST_GROUPS: u32 = 65_535;

impl fmt::Display for Tile {
    /// Writes it for people: `128×128×16 in 64×32 in 8×8`, work-group, warp, part; without a warp that is the whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bm, bn, bk, wm, wn, tm, tn, k_parts, groups } = self;
        write!(f, "{bm}×{bn}×{bk}")?;
        if (wm, wn) != (bm, bn) {
            write!(f, " in {wm}×{wn}")?;
        }
        write!(f, " in {tm}×{tn}")?;
        if *k_parts > 1 {
            write!(f, " over {k_parts} parts of K")?;
        }
        if *groups > 0 {
            write!(f, " shared by {groups} groups")?;
        }
        Ok(())
    }
}

impl From<Tile> for String {
    fn from(Tile { bm, bn, bk, wm, wn, tm, tn, k_parts, groups }: Tile) -> Self {
        let parts = if k_parts == 1 { Self::new() } else { format!("/{k_parts}") };
        let groups = if groups == 0 { Self::new() } else { format!("/g{groups}") };
        format!("{bm}x{bn}x{bk}/{wm}x{wn}/{tm}x{tn}{parts}{groups}")
    }
}

impl FromStr for Tile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (own, groups) = text.split_once("/g").map_or((text, Ok(0)), |(own, groups)| (own, groups.parse()));
        let extents: Result<Vec<u32>, _> = own.split(['x', '/']).map(str::parse).collect();
        let tile = match (extents.as_deref(), groups) {
            (Ok(&[bm, bn, bk, wm, wn, tm, tn, ref k_parts @ ..]), Ok(groups)) if k_parts.len() <= 1 => {
                let k_parts = k_parts.first().copied().unwrap_or(1);
                Self { k_parts, groups, ..Self::new([bm, bn, bk], [wm, wn], [tm, tn]) }
            }
            _ => {
                return Err(format!(
                    "malformed tile '{text}'; write 128x128x16/64x32/8x8: block, warp, part (and /4 for 4 parts of K, or /g264 for 264 \
                     groups that share the blocks)"
                ));
            }
        };
        // Demands the separators in their places and no signs or leading zeros: what is written is what was meant.
        if String::from(tile) != text {
            return Err(format!("malformed tile '{text}'; did you mean '{}'?", String::from(tile)));
        }
        tile.divides().map_err(|reason| format!("impossible tile '{text}': {reason}"))?;
        Ok(tile)
    }
}

impl TryFrom<String> for Tile {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// How a kernel divides a block among its invocations, and what that demands of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockDivision {
    /// Each invocation has a column of `tm` elements.
    Columns,
    /// Each invocation has quads of elements.
    Quads,
    /// The same, in warps as large as sub-groups.
    Warps,
    /// Each sub-group has cooperative matrices of `tm`×`tn`.
    Matrices(Accumulator),
    /// The same, of f16, with two of them in place of each of f32.
    Halves,
    /// The block is a cooperative matrix, held by as many sub-groups as it has warps.
    Block(Accumulator),
}

impl BlockDivision {
    /// Invocations of a work-group.
    pub(super) fn invocations(self, tile: &Tile, lanes: u32) -> u32 {
        match self {
            Self::Columns | Self::Quads | Self::Warps => (tile.bm / tile.tm.max(1)) * (tile.bn / tile.tn.max(1)),
            Self::Matrices(_) | Self::Halves | Self::Block(_) => {
                lanes * (tile.bm / tile.wm.max(1)) * (tile.bn / tile.wn.max(1))
            }
        }
    }

    /// Shared memory of a work-group, for the elements and the layout of a case.
    pub(super) fn shared_bytes(self, tile: &Tile, case: &CaseSpec) -> Bytes {
        let CaseOptions { dtype, layout, .. } = case.options;
        let [bm, bn, bk] = [tile.bm, tile.bn, tile.bk].map(u64::from);
        // A slab of both operands, each row (or column) padded by 16 bytes; at the end a row of matrices of each warp
        // in its place.
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
            // A slab of A, padded by a quad as in `tiled`, and one of B, padded where it is transposed.
            Self::Columns | Self::Quads | Self::Warps => {
                let padding = if layout == Layout::Nt { 4 } else { 0 };
                dtype.bytes().max(4) * bk * (bm + 4 + bn + padding)
            }
            Self::Matrices(_) => slabs().max(staged()),
            // The halves are of layout nn, whatever that of the operands.
            Self::Halves => (2 * (along(bm, DType::F16) + across(bn, DType::F16))).max(staged()),
            Self::Block(_) => 0,
        })
    }

    /// Whether the model knows its pace well enough to choose a tile by.
    pub(super) fn is_modelled(self, device: &DeviceInfo) -> bool {
        device.kind != DeviceKind::Cpu && matches!(self, Self::Warps | Self::Matrices(Accumulator::Wide))
    }

    /// Whether its kernel can cut K into parts.
    pub(super) fn cuts_k(self) -> bool {
        matches!(self, Self::Matrices(_) | Self::Halves)
    }

    /// Whether groups of its kernel can share blocks evenly.
    pub(super) fn shares(self) -> bool {
        self == Self::Warps
    }

    /// The type of its parts' elements and their shape, where these are cooperative matrices. Sums of 32 bits fill the
    /// registers, so that the narrowest matrices are taken, of which one of B takes fewest; but in `split` they gain nothing.
    pub(super) fn matrices(self, dtype: DType, device: &DeviceInfo) -> Option<(DType, MatrixShape)> {
        match self {
            Self::Matrices(Accumulator::Wide) => Some((dtype, largest_matrix(dtype, Accumulator::Wide, device, |_| 1))),
            Self::Matrices(Accumulator::Narrow) => Some((dtype, matrix_shape(dtype, Accumulator::Narrow, device))),
            Self::Halves => Some((DType::F16, matrix_shape(DType::F16, Accumulator::Wide, device))),
            _ => None,
        }
    }

    /// Whether its parts are cooperative matrices.
    #[cfg(test)]
    pub(super) fn needs_matrices(self) -> bool {
        matches!(self, Self::Matrices(_) | Self::Halves | Self::Block(_))
    }

    /// Checks that K can be cut into the parts of a tile, or its blocks be shared.
    fn legal_parts(self, tile: &Tile, case: &CaseSpec) -> Result<(), String> {
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

    /// Checks that a kernel can be cut up like this for a case on `device`.
    ///
    /// # Errors
    /// What does not divide, or which limit of the device is exceeded.
    pub(super) fn legal(self, tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String> {
        tile.divides()?;
        let Tile { bm, bn, bk, tm, tn, .. } = *tile;
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
                let piece = piece(dtype) as u32;
                all_divide(&[
                    (shape.m, tm, "parts are the device's matrices, with as many rows"),
                    (tm, shape.m, "parts are the device's matrices, with as many rows"),
                    (shape.n, tn, "parts are the device's matrices, with as many columns"),
                    (tn, shape.n, "parts are the device's matrices, with as many columns"),
                    (shape.k, bk, "a slab consists of the device's matrices"),
                    (piece, bk, "rows of a slab are moved 16 bytes at a time"),
                ])?;
                // What is transposed on its way may leave some invocations idle. Halves are of layout nn.
                let layout = if self == Self::Halves { Layout::Nn } else { case.layout };
                if layout != Layout::Tn || !transposes(dtype) {
                    all_divide(&[
                        (piece, bm, "rows of A are moved 16 bytes at a time"),
                        (invocations, bm * bk / piece, "the invocations must divide the pieces of a slab of A"),
                    ])?;
                }
                if layout == Layout::Nt || !transposes(dtype) {
                    all_divide(&[
                        (piece, bn, "rows of B are moved 16 bytes at a time"),
                        (invocations, bk * bn / piece, "the invocations must divide the pieces of a slab of B"),
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

/// Whether `coopmat` transposes an operand whose rows lie across K on its way to shared memory: see
/// `matmul-parcels.glsl`.
pub(super) fn transposes(dtype: DType) -> bool {
    dtype == DType::I8
}

/// The type in which a product kernel stores its sums: that of C, but 32 bits at least for parts of K.
pub(super) fn stored(dtype: DType, tile: &Tile) -> DType {
    match (tile.k_parts, dtype) {
        (2.., DType::F16 | DType::Bf16) => DType::F32,
        _ => dtype.of_product(),
    }
}

/// Elements in the 16 bytes that kernels with matrices move at a time.
pub(super) fn piece(dtype: DType) -> u64 {
    16 / dtype.bytes()
}

/// The cooperative matrices of sub-group scope that `device` multiplies fastest, as far as one can tell: the largest of those
/// whose rows are whole pieces of 16 bytes, in which kernels move them. For a device without any, those of the first
/// devices that had some, so that a case can say what is missing.
pub(in crate::algorithms) fn matrix_shape(dtype: DType, accumulator: Accumulator, device: &DeviceInfo) -> MatrixShape {
    largest_matrix(dtype, accumulator, device, |own| own.n)
}

/// The largest of them whose columns count as many as `counted` says.
fn largest_matrix(
    dtype: DType,
    accumulator: Accumulator,
    device: &DeviceInfo,
    counted: fn(&CooperativeMatrix) -> u32,
) -> MatrixShape {
    let (input, accumulator) = (dtype.name(), accumulator.name(dtype));
    let piece = piece(dtype) as u32;
    let own = device.cooperative_matrices.iter().filter(|own| {
        (own.input.as_str(), own.accumulator.as_str(), own.scope.as_str()) == (input, accumulator, "subgroup")
            && own.k.is_multiple_of(piece)
            && own.n.is_multiple_of(piece)
    });
    // Of shapes of one volume the most square has the fewest components to load.
    let largest = own.max_by_key(|own| {
        let columns = counted(own);
        (own.m * columns * own.k, own.m.min(columns), Reverse(own.n))
    });
    let [m, n, k] = largest.map_or([16, 16, 32 / dtype.bytes() as u32], |own| [own.m, own.n, own.k]);
    MatrixShape { m, n, k, input, accumulator, scope: MatrixScope::Subgroup }
}

/// The cooperative matrices of work-group scope that a tile means.
pub(super) fn block_shape(tile: &Tile, dtype: DType, accumulator: Accumulator, invocations: u32) -> MatrixShape {
    let (input, accumulator) = (dtype.name(), accumulator.name(dtype));
    let scope = MatrixScope::Workgroup(invocations);
    MatrixShape { m: tile.bm, n: tile.bn, k: tile.bk, input, accumulator, scope }
}

/// The tiles of a variant, the largest first.
pub(crate) struct TileTable {
    /// How its kernel uses them.
    pub(super) division: BlockDivision,
    /// For GPUs.
    pub(super) gpu: &'static [Tile],
    /// For software devices, whose shared memory is ordinary memory: the larger the tile of an invocation, the better,
    /// but compiling it takes seconds.
    pub(super) software: &'static [Tile],
    /// For elements of a byte, on any device; none where the others do for them too.
    pub(super) bytes: &'static [Tile],
}

/// Cores (streaming multiprocessors, compute units) that a GPU and a software device are assumed to have: Vulkan does
/// not tell.
const CORES: [u64; 2] = [132, 8];

impl TileTable {
    /// The tile of a case: the one it asks for, else the built-in one.
    pub(super) fn for_case(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        match case.tile {
            Some(algorithms::tile::Tile::Product(tile)) => tile,
            _ => self.built_in(case, device),
        }
    }

    /// The tiles for devices of this one's kind; where parts are cooperative matrices, with the device's own.
    pub(super) fn tiles(&self, dtype: DType, device: &DeviceInfo) -> impl Iterator<Item = Tile> {
        let tiles = match device.kind {
            _ if dtype.bytes() == 1 && !self.bytes.is_empty() => self.bytes,
            DeviceKind::Cpu => self.software,
            _ => self.gpu,
        };
        let part = self.division.matrices(dtype, device);
        tiles.iter().map(move |tile| part.map_or(*tile, |(_, part)| Tile { tm: part.m, tn: part.n, ..*tile }))
    }

    /// The tile that should be the fastest by the [model](super::model), of those within the device's limits, where that knows the
    /// kernel's pace. Elsewhere the largest whose work-groups keep the cores busy: until the busiest core is done, no more than a
    /// quarter of all cores' time is idle; without such a tile the smallest, over parts of K for the cores that are left, or
    /// shared by all of them. Where none is within the limits, the last, which the check of the program then refuses.
    pub(in crate::algorithms) fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        let legal = |tile: &Tile| self.division.legal(tile, case, device).is_ok();
        if self.division.is_modelled(device) {
            let ways = auto::ways(self, case, device);
            let rank = |tile: &Tile| auto::rank(auto::time(self.division, tile, case, device), Some((*tile).into()));
            let best = ways.iter().copied().filter(legal).min_by_key(rank);
            return best.unwrap_or(ways[ways.len() - 1]);
        }
        let cores = CORES[usize::from(device.kind == DeviceKind::Cpu)];
        let dims = Dims::from(case.size);
        let busy = |tile: &Tile| {
            let blocks = tile.blocks(dims).iter().product::<u64>();
            4 * blocks >= 3 * blocks.div_ceil(cores) * cores
        };
        let tiles: Vec<Tile> = self.tiles(case.dtype, device).collect();
        let fitting = || tiles.iter().filter(|tile| legal(tile));
        let tile = *fitting().find(|tile| busy(tile)).or(fitting().next_back()).unwrap_or(&tiles[tiles.len() - 1]);
        let blocks = tile.blocks(dims).iter().product::<u64>().max(1);
        let slabs = tile.slabs(dims.k) / 4;
        if self.division.shares() && !busy(&tile) && slabs > 1 {
            return tile.shared_by(cores.min(blocks * slabs) as u32);
        }
        let parts = (cores / blocks).min(slabs).max(1);
        if self.division.cuts_k() { tile.over(parts as u32) } else { tile }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::size::Size;
    use crate::device::capability::tests::software_device;

    const LARGE: Tile = Tile::new([128, 128, 16], [64, 32], [8, 8]);
    // Of a division that the model does not know.
    const CHOICE: TileTable = TileTable {
        division: BlockDivision::Quads,
        gpu: &[LARGE, Tile::flat([64, 64, 16], [8, 4]), Tile::flat([32, 32, 16], [4, 4])],
        software: &[Tile::flat([64, 64, 8], [16, 16]), Tile::flat([16, 16, 8], [8, 8])],
        bytes: &[],
    };

    fn case(n: u64) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32)
    }

    fn chosen(n: u64, change: impl Fn(&mut DeviceInfo)) -> u32 {
        let mut device = software_device();
        device.kind = DeviceKind::DiscreteGpu;
        change(&mut device);
        CHOICE.built_in(&case(n), &device).bm
    }

    #[test]
    fn matrices_with_rows_of_less_than_16_bytes_are_passed_over() {
        let mut device = software_device();
        let shape = |[m, n, k]: [u32; 3], input: &str, accumulator: &str| CooperativeMatrix {
            m,
            n,
            k,
            input: input.into(),
            accumulator: accumulator.into(),
            scope: "subgroup".into(),
        };
        // As llvmpipe 26.2 has them.
        device.cooperative_matrices = vec![shape([8, 8, 8], "f16", "f32"), shape([8, 8, 8], "i8", "i32")];
        let extents = |dtype, device: &DeviceInfo| {
            let MatrixShape { m, n, k, .. } = matrix_shape(dtype, Accumulator::Wide, device);
            [m, n, k]
        };
        assert_eq!(extents(DType::F16, &device), [8, 8, 8]);
        assert_eq!(extents(DType::I8, &device), [16, 16, 32], "what it lacks");
        device.cooperative_matrices.push(shape([16, 16, 16], "i8", "i32"));
        assert_eq!(extents(DType::I8, &device), [16, 16, 16]);
    }

    #[test]
    fn matrices_are_the_largest_and_with_sums_of_32_bits_the_narrowest_of_these() {
        let mut device = software_device();
        // As an H100's driver has them.
        device.cooperative_matrices = [("f16", "f32"), ("f16", "f16"), ("i8", "i32")]
            .into_iter()
            .flat_map(|(input, accumulator)| {
                let depth = if input == "i8" { 32 } else { 16 };
                [[16, 16, depth], [16, 8, depth], [16, 8, depth / 2]].map(|[m, n, k]| CooperativeMatrix {
                    m,
                    n,
                    k,
                    input: input.into(),
                    accumulator: accumulator.into(),
                    scope: "subgroup".into(),
                })
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
    fn small_products_get_small_tiles_so_that_every_core_has_work() {
        for (n, bm) in [(8192, 128), (2048, 128), (1024, 64), (512, 32), (1, 32)] {
            assert_eq!(chosen(n, |_| ()), bm, "{n}");
        }
        for (n, bm) in [(256, 64), (128, 16)] {
            assert_eq!(chosen(n, |device| device.kind = DeviceKind::Cpu), bm, "{n}");
        }
    }

    #[test]
    fn a_device_with_little_room_gets_a_smaller_tile() {
        assert_eq!(chosen(8192, |device| device.limits.shared_memory = Bytes(16 << 10)), 64);
        assert_eq!(chosen(8192, |device| device.limits.group_invocations = 128), 64);
        assert_eq!(chosen(8192, |device| device.limits.group_invocations = 1), 32);
    }

    #[test]
    fn a_tile_survives_text_and_no_other_text_is_one() {
        let text = String::from(LARGE);
        assert_eq!(text, "128x128x16/64x32/8x8");
        assert_eq!(text.parse(), Ok(LARGE));
        assert_eq!(LARGE.to_string(), "128×128×16 in 64×32 in 8×8");
        assert_eq!(Tile::flat([64, 64, 16], [8, 4]).to_string(), "64×64×16 in 8×4");
        let parts = LARGE.over(12);
        assert_eq!(String::from(parts).parse(), Ok(parts));
        assert_eq!(parts.to_string(), "128×128×16 in 64×32 in 8×8 over 12 parts of K");
        let shared = LARGE.shared_by(264);
        assert_eq!(String::from(shared), "128x128x16/64x32/8x8/g264");
        assert_eq!("128x128x16/64x32/8x8/g264".parse(), Ok(shared));
        assert_eq!(shared.to_string(), "128×128×16 in 64×32 in 8×8 shared by 264 groups");
        for (text, expected) in [
            ("128x128x16", "write 128x128x16/64x32/8x8"),
            ("128x128x16/64x32/8x+8", "did you mean '128x128x16/64x32/8x8'?"),
            ("128/128x16x64x32/8x8", "did you mean"),
            ("128x128x16/48x32/8x8", "48 does not divide 128"),
            ("4294967288x4294967288x8/8x8/8x8", "4294967288 is more than a tile can have"),
            ("0x0x0/0x0/0x0", "0 does not divide 0"),
            ("128x128x16/64x32/8x8/0", "1 does not divide 0"),
            ("128x128x16/64x32/8x8/g0", "did you mean '128x128x16/64x32/8x8'?"),
            ("128x128x16/64x32/8x8/g65536", "65536 groups are more"),
            ("128x128x16/64x32/8x8/g", "write 128x128x16/64x32/8x8"),
            ("128x128x16/64x32/8x8/1", "did you mean '128x128x16/64x32/8x8'?"),
        ] {
            let error = text.parse::<Tile>().expect_err(text);
            assert!(error.contains(expected) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_tile_that_does_not_divide_or_fit_says_why() {
        let mut device = software_device();
        let legal = |tile: Tile, device: &DeviceInfo| BlockDivision::Warps.legal(&tile, &case(64), device);
        assert_eq!(legal(LARGE, &device), Ok(()));
        assert_eq!(BlockDivision::Warps.invocations(&LARGE, 8), 256);
        assert_eq!(BlockDivision::Warps.shared_bytes(&LARGE, &case(1)), Bytes(16 * (132 + 128) * 4));
        let error = |tile: Tile, device: &DeviceInfo| legal(tile, device).expect_err("it is illegal");
        let message = error(Tile { wm: 48, ..LARGE }, &device);
        assert_eq!(message, "the rows of a warp must divide those of the work-group: 48 does not divide 128");
        assert!(error(Tile { bk: 12, ..LARGE }, &device).contains("8 does not divide 12"));
        assert!(error(Tile { tm: 0, ..LARGE }, &device).contains("the rows of a part"));
        assert!(error(Tile { tm: 2, ..LARGE }, &device).contains("quads of rows"));
        assert!(error(Tile { bk: 8, tm: 4, tn: 4, ..LARGE }, &device).contains("1024 does not divide 256"));
        device.limits.group_invocations = 128;
        assert!(error(LARGE, &device).contains("needs 256 invocations"));
        device.limits.group_invocations = 256;
        device.limits.shared_memory = Bytes(1 << 14);
        assert!(error(LARGE, &device).contains("of shared memory"));
    }
}
