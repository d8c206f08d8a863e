//! Cooperative matrices (`SPV_KHR_cooperative_matrix`): each lane of a sub-group holds some of the elements, and which is
//! the device's choice.

use crate::code::{Location, Pc, Reg};
use crate::findings::Findings;
use crate::gang::Gang;
use crate::kernel::interface::Scalar;
use crate::lanes::Active;
use crate::registers::{Registers, Undefined};
use crate::subgroup::{report, subgroups};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::num::Wrapping;
use std::ops::{Add, Mul};
use std::sync::{Arc, Mutex, PoisonError};

/// Type of a cooperative matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatrixType {
    pub(crate) scalar: Scalar,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    /// SPIR-V's `CooperativeMatrixUse`: 0 for A, 1 for B, 2 for the accumulator.
    pub(crate) usage: u32,
}

impl MatrixType {
    /// Returns the registers that hold a matrix in a sub-group of `lanes`: elements of each lane, rounded up.
    pub(crate) fn registers(&self, lanes: u32) -> u32 {
        self.elements().div_ceil(lanes)
    }

    fn elements(&self) -> u32 {
        self.rows.saturating_mul(self.columns)
    }
}

/// Memory operand of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatrixMemory {
    /// First element.
    pub(crate) at: Location,
    /// Distance of rows, or of columns if column-major, in units of `stride_bytes`.
    pub(crate) stride: Option<Reg>,
    pub(crate) stride_bytes: u64,
    pub(crate) is_column_major: bool,
}

/// Instruction on cooperative matrices, named by their first registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MatrixInstruction {
    Load {
        to: Reg,
        matrix: MatrixType,
        memory: MatrixMemory,
    },
    Store {
        from: Reg,
        matrix: MatrixType,
        memory: MatrixMemory,
    },
    /// `to = a * b + c`. `operands` are SPIR-V's `CooperativeMatrixOperands`: signedness of A 1, B 2, C 4, result 8;
    /// saturating accumulation 16.
    MulAdd {
        to: Reg,
        a: (Reg, MatrixType),
        b: (Reg, MatrixType),
        c: (Reg, MatrixType),
        result: MatrixType,
        operands: u32,
    },
}

/// Assignment of elements to lanes and registers, made from a seed. Seed 0 deals the elements out row by row, one to
/// each lane in turn; other seeds permute them.
///
/// The assignment depends on a matrix's shape and use, but not on its element type: a conversion between element types
/// works register by register.
pub(crate) struct MatrixLayout {
    seed: u64,
    tables: Mutex<Vec<(LayoutKey, Arc<[u32]>)>>,
}

/// Rows, columns, use and lanes.
type LayoutKey = [u32; 4];

impl MatrixLayout {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, tables: Mutex::default() }
    }

    /// Returns the row and column of the element in a register of a lane; `None` if the register is surplus there.
    #[cfg(test)]
    fn element(&self, matrix: &MatrixType, lane: u32, register: u32, lanes: u32) -> Option<(u32, u32)> {
        let slot = register as usize * lanes as usize + lane as usize;
        let element = *self.table(matrix, lanes).get(slot)?;
        (element < matrix.elements()).then(|| (element / matrix.columns, element % matrix.columns))
    }

    /// Returns the element in row-major order of each slot, which is `register * lanes + lane`. Slots with a number
    /// that is no element are surplus.
    fn table(&self, matrix: &MatrixType, lanes: u32) -> Arc<[u32]> {
        let key = [matrix.rows, matrix.columns, matrix.usage, lanes];
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = tables.iter().find(|(known, _)| *known == key) {
            return table.clone();
        }
        let mut table: Vec<u32> = (0..matrix.registers(lanes).saturating_mul(lanes)).collect();
        if self.seed != 0 {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
            for (bytes, part) in bytes[8..].chunks_exact_mut(4).zip(key) {
                bytes.copy_from_slice(&part.to_le_bytes());
            }
            let mut random = ChaCha8Rng::from_seed(bytes);
            for last in (1..table.len()).rev() {
                table.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
            }
        }
        let table: Arc<[u32]> = table.into();
        tables.push((key, table.clone()));
        table
    }
}

/// Gang that executes a matrix instruction. Each of its sub-groups has matrices of its own.
pub(crate) struct MatrixUnit<'a> {
    pub(crate) layout: &'a MatrixLayout,
    pub(crate) active: &'a Active,
    pub(crate) gang: &'a Gang,
    pub(crate) pc: Pc,
}

/// Elements of a sub-group's matrix, row by row.
struct MatrixElements {
    scalar: Scalar,
    bits: Vec<u64>,
    /// Origins of undefined elements.
    undefined: Vec<Option<Pc>>,
}

impl MatrixUnit<'_> {
    /// Reports sub-groups of which some lanes are inactive or missing: matrix instructions need all of them.
    pub(crate) fn check(&self, instruction: &MatrixInstruction, findings: &mut Findings) {
        let size = self.gang.subgroup_size as usize;
        let verb = match instruction {
            MatrixInstruction::Load { .. } => "loads a matrix",
            MatrixInstruction::Store { .. } => "stores a matrix",
            MatrixInstruction::MulAdd { .. } => "multiplies matrices",
        };
        for (_, members) in subgroups(self.active, self.gang).filter(|(_, members)| members.len() < size) {
            let missing = size - members.len();
            let text = || format!("{verb} with {missing} of {size} lanes inactive");
            report(findings, self.gang, self.pc, members[0], text);
        }
    }

    /// Executes a [`MatrixInstruction::Load`]; does nothing for others. `read` is called once for each element, with
    /// the lane that holds it and its byte offset from the first element, and returns its bits and the origin of an
    /// undefined one. Surplus registers become undefined.
    pub(crate) fn load(
        &self,
        instruction: &MatrixInstruction,
        registers: &mut Registers,
        read: &mut dyn FnMut(usize, u64) -> (u64, Option<Pc>),
    ) {
        let MatrixInstruction::Load { to, matrix, memory } = instruction else { return };
        let strides = self.strides(matrix, memory, registers);
        for register in *to..to + matrix.registers(self.gang.subgroup_size) {
            registers.define(register, self.active);
        }
        self.visit(*to, matrix, memory, &strides, &mut |register, lane, offset| {
            let (bits, origin) = offset.map_or((0, Some(self.pc)), |offset| read(lane, offset));
            registers.set(register, lane, bits);
            if let Some(origin) = origin {
                registers.mark(register, lane, origin);
            }
        });
    }

    /// Executes a [`MatrixInstruction::Store`]; does nothing for others. `write` is called once for each element, with
    /// the lane that holds it, its byte offset from the first element, its bits and the origin of an undefined one.
    pub(crate) fn store(
        &self,
        instruction: &MatrixInstruction,
        registers: &Registers,
        write: &mut dyn FnMut(usize, u64, u64, Option<Pc>),
    ) {
        let MatrixInstruction::Store { from, matrix, memory } = instruction else { return };
        let strides = self.strides(matrix, memory, registers);
        self.visit(*from, matrix, memory, &strides, &mut |register, lane, offset| {
            if let Some(offset) = offset {
                write(lane, offset, registers.get(register)[lane], registers.origin(register, lane));
            }
        });
    }

    /// Executes a [`MatrixInstruction::MulAdd`]; does nothing for others, and for matrices whose shapes do not match.
    pub(crate) fn multiply_add(&self, instruction: &MatrixInstruction, registers: &mut Registers) {
        let MatrixInstruction::MulAdd { to, a, b, c, result, operands } = *instruction else { return };
        let shapes = [a, b, c].map(|(_, matrix)| (matrix.rows, matrix.columns));
        let (rows, columns, inner) = (result.rows, result.columns, a.1.columns);
        if inner == 0 || columns == 0 || shapes != [(rows, inner), (inner, columns), (rows, columns)] {
            return;
        }
        let shape = [inner as usize, columns as usize];
        let size = self.gang.subgroup_size;
        let table = self.layout.table(&result, size);
        let mut marks = vec![Undefined::default(); result.registers(size) as usize];
        for (begin, members) in subgroups(self.active, self.gang) {
            let factors = [a, b, c].map(|source| self.gather(source, begin, members, registers));
            let products = multiply(&factors, result.scalar, operands, shape);
            let undefined = undefined_results(&factors, shape);
            for ((register, slots), marks) in (to..).zip(table.chunks_exact(size as usize)).zip(&mut marks) {
                for &lane in members {
                    let element = slots[usize::from(lane) - begin] as usize;
                    registers.set(register, lane.into(), products.get(element).copied().unwrap_or(0));
                    if let Some(origin) = undefined.get(element).copied().unwrap_or(Some(self.pc)) {
                        marks.insert(lane.into(), origin);
                    }
                }
            }
        }
        for (to, marks) in (to..).zip(marks) {
            registers.set_undefined(to, self.active, Some(marks));
        }
    }

    /// Returns the stride in bytes for each sub-group: the first active lane's.
    fn strides(&self, matrix: &MatrixType, memory: &MatrixMemory, registers: &Registers) -> Vec<u64> {
        let packed = if memory.is_column_major { matrix.rows } else { matrix.columns };
        let packed = u64::from(packed) * u64::from(matrix.scalar.bytes());
        let stride = |members: &[u16]| {
            let register = memory.stride?;
            Some(registers.get(register)[usize::from(members[0])].wrapping_mul(memory.stride_bytes))
        };
        subgroups(self.active, self.gang).map(|(_, members)| stride(members).unwrap_or(packed)).collect()
    }

    /// Calls `act` with each register of the matrix, each active lane, and the byte offset of the element in it.
    fn visit(
        &self,
        first: Reg,
        matrix: &MatrixType,
        memory: &MatrixMemory,
        strides: &[u64],
        act: &mut dyn FnMut(Reg, usize, Option<u64>),
    ) {
        let table = self.layout.table(matrix, self.gang.subgroup_size);
        for (register, slots) in (first..).zip(table.chunks_exact(self.gang.subgroup_size as usize)) {
            for ((begin, members), stride) in subgroups(self.active, self.gang).zip(strides) {
                for &lane in members {
                    let element = slots[usize::from(lane) - begin];
                    let offset = (element < matrix.elements()).then(|| {
                        let (row, column) = (element / matrix.columns, element % matrix.columns);
                        let (far, near) = if memory.is_column_major { (column, row) } else { (row, column) };
                        let near_bytes = u64::from(near) * u64::from(matrix.scalar.bytes());
                        stride.wrapping_mul(far.into()).wrapping_add(near_bytes)
                    });
                    act(register, lane.into(), offset);
                }
            }
        }
    }

    /// Returns a sub-group's matrix. Elements of lanes that are not active are 0: [`Self::check`] reports them.
    fn gather(
        &self,
        source: (Reg, MatrixType),
        begin: usize,
        members: &[u16],
        registers: &Registers,
    ) -> MatrixElements {
        let (first, matrix) = source;
        let size = self.gang.subgroup_size;
        let count = matrix.elements() as usize;
        let (mut bits, mut undefined) = (vec![0; count], vec![None; count]);
        for (register, slots) in (first..).zip(self.layout.table(&matrix, size).chunks_exact(size as usize)) {
            let values = registers.get(register);
            for lane in members.iter().map(|&lane| usize::from(lane)) {
                let element = slots[lane - begin] as usize;
                if element >= count {
                    continue;
                }
                bits[element] = values[lane];
                undefined[element] = registers.origin(register, lane);
            }
        }
        MatrixElements { scalar: matrix.scalar, bits, undefined }
    }
}

/// Returns for each element of `a * b + c` the origin of an undefined one: an undefined element of A spoils its row, one of B
/// its column.
fn undefined_results([a, b, c]: &[MatrixElements; 3], [inner, columns]: [usize; 2]) -> Vec<Option<Pc>> {
    let mut undefined = c.undefined.clone();
    for (row, a) in undefined.chunks_exact_mut(columns).zip(a.undefined.chunks_exact(inner)) {
        if let Some(origin) = a.iter().find(|origin| origin.is_some()) {
            row.fill(*origin);
        }
    }
    for (index, origin) in b.undefined.iter().enumerate().filter(|(_, origin)| origin.is_some()) {
        undefined.iter_mut().skip(index % columns).step_by(columns).for_each(|element| *element = *origin);
    }
    undefined
}

/// Returns `a * b + c`, rounded or wrapped once to the result's type. `operands` are those of
/// [`MatrixInstruction::MulAdd`].
fn multiply(matrices: &[MatrixElements; 3], result: Scalar, operands: u32, shape: [usize; 2]) -> Vec<u64> {
    let floats = |matrix: &MatrixElements| -> Vec<f64> {
        matrix.bits.iter().map(|bits| crate::alu::to_f64(matrix.scalar, *bits)).collect()
    };
    match result {
        Scalar::Float { bits: 64 } => {
            let [a, b, c] = matrices.each_ref().map(floats);
            accumulate(&a, &b, c, shape).into_iter().map(f64::to_bits).collect()
        }
        Scalar::Float { .. } | Scalar::Bfloat16 => {
            let [a, b, c] =
                matrices.each_ref().map(|matrix| floats(matrix).iter().map(|value| *value as f32).collect());
            let a: Vec<f32> = a;
            accumulate(&a, &b, c, shape).into_iter().map(|sum| crate::alu::from_f64(result, sum.into())).collect()
        }
        Scalar::Int { .. } | Scalar::Bool => {
            let [a, b, c] = [0, 1, 2].map(|index| {
                let (MatrixElements { scalar, bits, .. }, is_signed) = (&matrices[index], operands >> index & 1 == 1);
                let scalar = Scalar::Int { bits: 8 * scalar.bytes(), signed: true };
                let value = |bits| if is_signed { crate::alu::sign_extend(scalar, bits).into() } else { bits.into() };
                bits.iter().map(|bits| Wrapping(value(*bits))).collect::<Vec<Wrapping<i128>>>()
            });
            let mask = u64::MAX >> (64 - 8 * result.bytes());
            let (least, greatest) = match i128::from(mask) {
                _ if operands & 16 == 0 => (i128::MIN, i128::MAX),
                mask if operands & 8 == 0 => (0, mask),
                mask => (-1 - mask / 2, mask / 2),
            };
            let sums = accumulate(&a, &b, c, shape);
            sums.into_iter().map(|sum| sum.0.clamp(least, greatest) as u64 & mask).collect()
        }
    }
}

/// Adds the product of `a` and `b` to `sums`, each sum in order of the inner dimension.
fn accumulate<T>(a: &[T], b: &[T], mut sums: Vec<T>, [inner, columns]: [usize; 2]) -> Vec<T>
where
    T: Copy + Add<Output = T> + Mul<Output = T>,
{
    for (a, sums) in a.chunks_exact(inner).zip(sums.chunks_exact_mut(columns)) {
        for (&factor, b) in a.iter().zip(b.chunks_exact(columns)) {
            for (sum, &other) in sums.iter_mut().zip(b) {
                *sum = *sum + factor * other;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::LaneSet;

    const F16: Scalar = Scalar::Float { bits: 16 };
    const F32: Scalar = Scalar::Float { bits: 32 };
    const F64: Scalar = Scalar::Float { bits: 64 };
    const BF16: Scalar = Scalar::Bfloat16;
    const I8: Scalar = Scalar::Int { bits: 8, signed: false };
    const I32: Scalar = Scalar::Int { bits: 32, signed: true };

    fn encode(scalar: Scalar, value: i64) -> u64 {
        match scalar {
            Scalar::Int { .. } => value.cast_unsigned() & (u64::MAX >> (64 - 8 * scalar.bytes())),
            _ => crate::alu::from_f64(scalar, value as f64),
        }
    }

    fn value(matrix: u32, row: u64, column: u64) -> i64 {
        ((row * 7 + column * 3 + u64::from(matrix)) % 11) as i64 - 5
    }

    /// Multiplies 8x4 by 4x16 matrices in two sub-groups; an element in row 3 of A is undefined. Returns the result of
    /// the first sub-group by row and column, `None` if undefined.
    fn multiply_in(layout: &MatrixLayout, lanes: u32, scalars: [Scalar; 3], operands: u32) -> Vec<Option<u64>> {
        let gang = Gang { group: 0, first: 0, lanes: lanes * 2, subgroup_size: lanes };
        let count = (lanes * 2) as usize;
        let active = Active { set: LaneSet::first(count), list: (0..count as u16).collect(), is_all: true };
        let unit = MatrixUnit { layout, active: &active, gang: &gang, pc: 5 };
        let mut registers = Registers::new(&[true; 4 * 128 + 1], count);
        (0..count).for_each(|lane| registers.set(512, lane, 20));
        let at = Location { place: crate::code::MemoryPlace::Shared, offset: None, constant: 0, alignment: 1 };
        let [a, b, c] = [(0, 8, 4), (1, 4, 16), (2, 8, 16)].map(|(usage, rows, columns)| {
            let matrix = MatrixType { scalar: scalars[usage as usize], rows, columns, usage };
            let bytes = u64::from(matrix.scalar.bytes());
            let memory = MatrixMemory { at, stride: Some(512), stride_bytes: bytes, is_column_major: usage == 1 };
            let load = MatrixInstruction::Load { to: 128 * usage, matrix, memory };
            unit.load(&load, &mut registers, &mut |_, offset| {
                let (far, near) = (offset / bytes / 20, offset / bytes % 20);
                let [row, column] = if usage == 1 { [near, far] } else { [far, near] };
                let is_undefined = [u64::from(usage), row, column] == [0, 3, 2];
                (encode(matrix.scalar, value(usage, row, column)), is_undefined.then_some(3))
            });
            (128 * usage, matrix)
        });
        unit.multiply_add(&MatrixInstruction::MulAdd { to: 384, a, b, c, result: c.1, operands }, &mut registers);
        let memory = MatrixMemory { at, stride: None, stride_bytes: 0, is_column_major: false };
        let mut results = vec![None; 256];
        let store = MatrixInstruction::Store { from: 384, matrix: c.1, memory };
        unit.store(&store, &registers, &mut |lane, offset, bits, origin| {
            assert!(matches!(origin, None | Some(3)), "{origin:?}");
            let index = lane / lanes as usize * 128 + (offset / u64::from(c.1.scalar.bytes())) as usize;
            assert_eq!(results[index].replace(origin.is_none().then_some(bits)), None, "written twice");
        });
        results.into_iter().take(128).map(|result| result.expect("written")).collect()
    }

    #[test]
    fn products_equal_naive_ones_in_all_layouts() {
        let floats = [[F16, F16, F32], [F16; 3], [F32; 3], [F64; 3], [BF16, BF16, F32]].map(|scalars| (scalars, 0));
        let integers = [([I8, I8, I32], 15), ([I8, I8, I32], 12), ([I8; 3], 15), ([I8; 3], 31), ([I8; 3], 16)];
        for (scalars, operands) in floats.into_iter().chain(integers) {
            let value_of = |matrix: u32, row, column| match value(matrix, row, column) {
                value if scalars[0] == I8 && operands >> matrix & 1 == 0 => value & 255,
                value => value,
            };
            for (seed, lanes) in [0, 1, 2].into_iter().flat_map(|seed| [1, 4, 32, 128].map(|lanes| (seed, lanes))) {
                let results = multiply_in(&MatrixLayout::new(seed), lanes, scalars, operands);
                for (index, result) in results.into_iter().enumerate() {
                    let (row, column) = (index as u64 / 16, index as u64 % 16);
                    let product: i64 = (0..4).map(|k| value_of(0, row, k) * value_of(1, k, column)).sum();
                    let sum = match (operands, product + value_of(2, row, column)) {
                        (31, sum) => sum.clamp(-128, 127),
                        (16, sum) => sum.clamp(0, 255),
                        (_, sum) => sum,
                    };
                    let expected = (row != 3).then(|| encode(scalars[2], sum));
                    assert_eq!(result, expected, "{scalars:?} {operands} {seed} {lanes} {index}");
                }
            }
        }
    }

    #[test]
    fn inactive_lanes_are_reported() {
        let gang = Gang { group: 0, first: 0, lanes: 8, subgroup_size: 4 };
        let active = Active { set: LaneSet::first(7), list: (0..7).collect(), is_all: false };
        let unit = MatrixUnit { layout: &MatrixLayout::new(0), active: &active, gang: &gang, pc: 5 };
        let matrix = MatrixType { scalar: F16, rows: 4, columns: 4, usage: 2 };
        let operand = (0, matrix);
        let product =
            MatrixInstruction::MulAdd { to: 4, a: operand, b: operand, c: operand, result: matrix, operands: 0 };
        let mut findings = Findings::default();
        unit.check(&product, &mut findings);
        let subjects: Vec<_> = findings.iter().map(|(finding, _)| finding.subject.clone()).collect();
        let text = "multiplies matrices with 1 of 4 lanes inactive";
        assert_eq!(subjects, [crate::findings::Subject::Text(text.to_string())]);
    }

    #[test]
    fn layouts_deal_out_each_element_once() {
        let matrix = MatrixType { scalar: F16, rows: 5, columns: 7, usage: 0 };
        for (seed, lanes) in [0, 1, 2].into_iter().flat_map(|seed| [1, 4, 32, 128].map(|lanes| (seed, lanes))) {
            let layout = MatrixLayout::new(seed);
            let slots = (0..matrix.registers(lanes)).flat_map(|register| (0..lanes).map(move |lane| (lane, register)));
            let mut elements: Vec<_> =
                slots.filter_map(|slot| layout.element(&matrix, slot.0, slot.1, lanes)).collect();
            elements.sort_unstable();
            assert!(elements.into_iter().eq((0..35).map(|element| (element / 7, element % 7))), "{seed} {lanes}");
        }
    }
}
