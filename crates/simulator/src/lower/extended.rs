//! Instructions of GLSL.std.450.

use super::Lowerer;
use crate::alu;
use crate::code::Reg;
use crate::kernel::interface::Scalar;
use crate::module::{ExtendedSet, Inst, ValueType};
use rspirv::spirv::{GlslStd450Op, Op};

impl Lowerer {
    pub(super) fn extended_instruction(&mut self, inst: &Inst) -> Result<(), String> {
        match self.module.extended_sets.get(&inst.operand(0)?) {
            Some(ExtendedSet::NonSemantic) => return Ok(()),
            Some(ExtendedSet::Glsl) => {}
            _ => return Err("uses extended instructions other than GLSL.std.450".into()),
        }
        let number = inst.operand(1)?;
        let op = GlslStd450Op::from_u32(number).ok_or_else(|| format!("GLSL.std.450 has no instruction {number}"))?;
        let unknown = || format!("{op:?} of GLSL.std.450 is not simulated");
        match op {
            GlslStd450Op::Modf | GlslStd450Op::Frexp => return self.part_to_memory(inst, number),
            GlslStd450Op::ModfStruct | GlslStd450Op::FrexpStruct => return self.parts(inst, number),
            GlslStd450Op::PackSnorm4x8
            | GlslStd450Op::PackUnorm4x8
            | GlslStd450Op::PackSnorm2x16
            | GlslStd450Op::PackUnorm2x16
            | GlslStd450Op::PackHalf2x16
            | GlslStd450Op::PackDouble2x32 => {
                let parts = self.registers(inst.operand(2)?)?;
                let result = self.extended_part(number, self.operand_scalar(inst)?, 0, &parts)?;
                return self.define(inst, vec![result]);
            }
            GlslStd450Op::UnpackSnorm2x16
            | GlslStd450Op::UnpackUnorm2x16
            | GlslStd450Op::UnpackHalf2x16
            | GlslStd450Op::UnpackSnorm4x8
            | GlslStd450Op::UnpackUnorm4x8
            | GlslStd450Op::UnpackDouble2x32 => {
                let whole = self.registers(inst.operand(2)?)?;
                let scalar = self.operand_scalar(inst)?;
                let mut results = vec![];
                for part in 0..self.module.scalar_count(inst.ty)? as u32 {
                    results.push(self.extended_part(number, scalar, part, &whole)?);
                }
                return self.define(inst, results);
            }
            _ => {}
        }
        let mut operands = vec![];
        for id in inst.rest(2) {
            operands.push(self.registers(*id)?);
        }
        if operands.is_empty() || operands.iter().any(Vec::is_empty) {
            return Err(unknown());
        }
        let scalar = self.operand_scalar(inst)?;
        if let Some(results) = self.geometry(op, scalar, &operands)? {
            return self.define(inst, results);
        }
        let mut results = vec![];
        for index in 0..self.module.scalar_count(inst.ty)? as usize {
            let chosen: Vec<Reg> = operands.iter().map(|operand| *operand.get(index).unwrap_or(&operand[0])).collect();
            results.push(self.extended(number, scalar, &chosen).map_err(|_| unknown())?);
        }
        self.define(inst, results)
    }

    /// Returns the scalar type of an instruction's first operand.
    fn operand_scalar(&self, inst: &Inst) -> Result<Scalar, String> {
        self.module.component_scalar(self.type_of(inst.operand(2)?)?)
    }

    /// Emits a scalar instruction of GLSL.std.450.
    pub(super) fn extended(&mut self, number: u32, scalar: Scalar, operands: &[Reg]) -> Result<Reg, String> {
        let operation = alu::extended(number, scalar)
            .ok_or_else(|| format!("instruction {number} of GLSL.std.450 on {} is not simulated", scalar.name()))?;
        let error = alu::extended_error_bound(number, scalar).map(|bound| (bound, scalar));
        self.emit_compute(operation, operands, None, error)
    }

    fn extended_part(&mut self, number: u32, scalar: Scalar, part: u32, operands: &[Reg]) -> Result<Reg, String> {
        let operation = alu::extended_part(number, scalar, part)
            .ok_or_else(|| format!("instruction {number} of GLSL.std.450 on {} is not simulated", scalar.name()))?;
        self.emit_compute(operation, operands, None, None)
    }

    /// Lowers an instruction whose second result goes to memory.
    fn part_to_memory(&mut self, inst: &Inst, number: u32) -> Result<(), String> {
        let scalar = self.operand_scalar(inst)?;
        let (mut results, mut stored) = (vec![], vec![]);
        for value in self.registers(inst.operand(2)?)? {
            results.push(self.extended_part(number, scalar, 0, &[value])?);
            stored.push(self.extended_part(number, scalar, 1, &[value])?);
        }
        let pointer = self.pointer(inst.operand(3)?)?;
        self.store(&pointer, &stored, &[])?;
        self.define(inst, results)
    }

    /// Lowers an instruction whose result is a structure of two parts.
    fn parts(&mut self, inst: &Inst, number: u32) -> Result<(), String> {
        let scalar = self.operand_scalar(inst)?;
        let values = self.registers(inst.operand(2)?)?;
        let mut results = vec![];
        for part in 0..2 {
            for value in &values {
                results.push(self.extended_part(number, scalar, part, &[*value])?);
            }
        }
        self.define(inst, results)
    }

    /// Lowers an instruction on whole vectors and matrices; `None` if `op` is none.
    fn geometry(
        &mut self,
        op: GlslStd450Op,
        scalar: Scalar,
        operands: &[Vec<Reg>],
    ) -> Result<Option<Vec<Reg>>, String> {
        let a = &operands[0];
        let b = operands.get(1).unwrap_or(a);
        let zero = self.constant(0)?;
        Ok(Some(match op {
            GlslStd450Op::Length => vec![self.length(scalar, a)?],
            GlslStd450Op::Distance => {
                let difference = self.pairwise(Op::FSub, scalar, a, b)?;
                vec![self.length(scalar, &difference)?]
            }
            GlslStd450Op::Normalize => {
                let length = self.length(scalar, a)?;
                self.pairwise(Op::FDiv, scalar, a, &vec![length; a.len()])?
            }
            GlslStd450Op::Cross if a.len() == 3 && b.len() == 3 => {
                let mut results = vec![];
                for (i, j) in [(1, 2), (2, 0), (0, 1)] {
                    let positive = self.compute(Op::FMul, scalar, scalar, &[a[i], b[j]])?;
                    let negative = self.compute(Op::FMul, scalar, scalar, &[a[j], b[i]])?;
                    results.push(self.compute(Op::FSub, scalar, scalar, &[positive, negative])?);
                }
                results
            }
            GlslStd450Op::FaceForward if operands.len() == 3 => {
                let dot = self.dot(scalar, b, &operands[2])?;
                let is_facing = self.compute(Op::FOrdLessThan, scalar, Scalar::Bool, &[dot, zero])?;
                let mut results = vec![];
                for value in a {
                    let negated = self.compute(Op::FNegate, scalar, scalar, &[*value])?;
                    let to = self.new_register()?;
                    self.emit(crate::code::RegisterOp::Select { to, condition: is_facing, yes: *value, no: negated })?;
                    results.push(to);
                }
                results
            }
            GlslStd450Op::Reflect => {
                let dot = self.dot(scalar, b, a)?;
                let twice = self.compute(Op::FAdd, scalar, scalar, &[dot, dot])?;
                let scaled = self.pairwise(Op::FMul, scalar, b, &vec![twice; b.len()])?;
                self.pairwise(Op::FSub, scalar, a, &scaled)?
            }
            GlslStd450Op::Determinant => vec![self.determinant(scalar, a)?],
            _ => return Ok(None),
        }))
    }

    fn pairwise(&mut self, op: Op, scalar: Scalar, a: &[Reg], b: &[Reg]) -> Result<Vec<Reg>, String> {
        a.iter().zip(b).map(|(a, b)| self.compute(op, scalar, scalar, &[*a, *b])).collect()
    }

    fn length(&mut self, scalar: Scalar, vector: &[Reg]) -> Result<Reg, String> {
        let square = self.dot(scalar, vector, vector)?;
        self.extended(GlslStd450Op::Sqrt as u32, scalar, &[square])
    }

    /// Expands a determinant along the first column.
    fn determinant(&mut self, scalar: Scalar, matrix: &[Reg]) -> Result<Reg, String> {
        let extent = (1..=4).find(|extent| extent * extent == matrix.len()).ok_or("has a determinant of no square")?;
        if extent == 1 {
            return Ok(matrix[0]);
        }
        let mut sum = None;
        for row in 0..extent {
            let mut minor = vec![];
            for (index, element) in matrix.iter().enumerate().skip(extent) {
                if index % extent != row {
                    minor.push(*element);
                }
            }
            let minor = self.determinant(scalar, &minor)?;
            let product = self.compute(Op::FMul, scalar, scalar, &[matrix[row], minor])?;
            sum = Some(match sum {
                None => product,
                Some(sum) if row % 2 == 1 => self.compute(Op::FSub, scalar, scalar, &[sum, product])?,
                Some(sum) => self.compute(Op::FAdd, scalar, scalar, &[sum, product])?,
            });
        }
        sum.ok_or_else(|| "has an empty determinant".into())
    }

    /// Lowers reads of texel buffers.
    pub(super) fn texels(&mut self, inst: &Inst) -> Result<(), String> {
        let slot = match self.find(inst.operand(0)?) {
            Some((super::LoweredValue::Texels(slot), _)) => *slot,
            _ => return Err(format!("Op{:?} of an image that is no texel buffer is not simulated", inst.op)),
        };
        if inst.op == Op::Image {
            self.define_value(inst, super::LoweredValue::Texels(slot));
            return Ok(());
        }
        if inst.op == Op::ImageQuerySize {
            let to = self.new_register()?;
            self.emit(crate::code::RegisterOp::TexelCount { to, slot })?;
            return self.define(inst, vec![to]);
        }
        let index = self.register(inst.operand(1)?)?;
        if !matches!(self.module.ty(inst.ty)?, ValueType::Vector { count: 4, .. }) {
            return Err("fetches texels that are not four f32".into());
        }
        let mut results = vec![];
        for component in 0..4 {
            let to = self.new_register()?;
            self.emit(crate::code::RegisterOp::Fetch { to, slot, index, component })?;
            results.push(to);
        }
        self.define(inst, results)
    }
}
