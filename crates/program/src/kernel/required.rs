//! Vulkan features that single instructions need beyond a kernel's declared capabilities: atomics by memory and type,
//! and sub-group operations by type ("Validation rules within a module", appendix A of the Vulkan specification).
//! There, one SPIR-V capability corresponds to several Vulkan features.
//!
//! `build.rs` includes this file, so it imports nothing else from the crate.

use super::instructions::string;
use rspirv::spirv::{ExecutionMode, Op, Scope, StorageClass};
use std::collections::{BTreeMap, BTreeSet};

/// Execution modes that set rounding, denormals, or NaN handling for one float width.
const FLOAT_CONTROLS: [ExecutionMode; 5] = [
    ExecutionMode::DenormPreserve,
    ExecutionMode::DenormFlushToZero,
    ExecutionMode::SignedZeroInfNanPreserve,
    ExecutionMode::RoundingModeRTE,
    ExecutionMode::RoundingModeRTZ,
];

/// SPIR-V extensions without capabilities. Vulkan's extensions of these names have no features either.
const EXTENSIONS: [&str; 3] = ["SPV_AMD_shader_ballot", "SPV_AMD_shader_trinary_minmax", "SPV_AMD_gcn_shader"];

/// Collector of the features that a module needs, instruction by instruction.
#[derive(Default)]
pub struct Required {
    types: BTreeMap<u32, Type>,
    /// Types that are vectors.
    vectors: BTreeSet<u32>,
    /// Constants of 32 bits.
    constants: BTreeMap<u32, u32>,
    /// Types of values that are pointers, or that only some devices can exchange within sub-groups.
    values: BTreeMap<u32, Type>,
    /// Vulkan's names of the needed features.
    pub features: BTreeSet<String>,
}

/// Type of a value. A vector counts as its component type.
#[derive(Clone, Copy)]
enum Type {
    Integer { bits: u32 },
    Float { bits: u32 },
    Pointer { class: u32, to: u32 },
}

impl Type {
    /// Whether sub-group operations on the type need a feature of their own.
    fn is_extended(self) -> bool {
        matches!(self, Self::Integer { bits: 8 | 16 | 64 } | Self::Float { bits: 16 })
    }
}

impl Required {
    /// Processes the next instruction.
    pub fn read(&mut self, op: Option<Op>, operands: &[u32]) {
        match (op, operands) {
            (Some(Op::TypeInt), &[id, bits, ..]) => self.define(id, Type::Integer { bits }),
            (Some(Op::TypeFloat), &[id, bits, ..]) => self.define(id, Type::Float { bits }),
            (Some(Op::TypeVector), &[id, component, ..]) => {
                if let Some(&component) = self.types.get(&component) {
                    self.define(id, component);
                    self.vectors.insert(id);
                }
            }
            (Some(Op::TypePointer), &[id, class, to]) => self.define(id, Type::Pointer { class, to }),
            (Some(Op::Constant), &[_, id, value]) => {
                self.constants.insert(id, value);
            }
            (Some(Op::Extension), words) => {
                let name = string(words);
                if EXTENSIONS.contains(&&*name) {
                    self.features.insert(name.replacen("SPV_", "VK_", 1));
                }
            }
            (Some(Op::ExecutionMode), &[_, mode]) => {
                let feature = match ExecutionMode::from_u32(mode) {
                    Some(ExecutionMode::MaximallyReconvergesKHR) => "shaderMaximalReconvergence",
                    Some(ExecutionMode::SubgroupUniformControlFlowKHR) => "shaderSubgroupUniformControlFlow",
                    _ => return,
                };
                self.features.insert(feature.into());
            }
            // Vulkan calls it a property (`shaderRoundingModeRTEFloat16`); it is treated as a feature.
            (Some(Op::ExecutionMode), &[_, mode, bits]) => {
                if let Some(mode) = ExecutionMode::from_u32(mode).filter(|mode| FLOAT_CONTROLS.contains(mode)) {
                    self.features.insert(format!("shader{mode:?}Float{bits}"));
                }
            }
            (Some(operation), operands) => self.read_operation(operation, operands),
            (None, _) => {}
        }
    }

    fn define(&mut self, id: u32, ty: Type) {
        self.types.insert(id, ty);
    }

    /// Notes the type of an operation's result, and the features that the operation needs.
    fn read_operation(&mut self, operation: Op, operands: &[u32]) {
        if let &[ty, result, ..] = operands
            && let Some(&ty) = self.types.get(&ty)
            && (matches!(ty, Type::Pointer { .. }) || ty.is_extended())
        {
            self.values.insert(result, ty);
        }
        // Operations with a result have its type and id as the first two operands.
        let pointer = if operation == Op::AtomicStore { operands.first() } else { operands.get(2) };
        let kind = match operation {
            Op::AtomicLoad | Op::AtomicStore | Op::AtomicExchange => Some("Atomics"),
            Op::AtomicFAddEXT => Some("AtomicAdd"),
            Op::AtomicFMinEXT | Op::AtomicFMaxEXT => Some("AtomicMinMax"),
            // These exist only for integers.
            other if (Op::AtomicCompareExchange as u32..=Op::AtomicXor as u32).contains(&(other as u32)) => {
                Some("Atomics")
            }
            _ => None,
        };
        if let (Some(kind), Some(pointer)) = (kind, pointer) {
            self.features.extend(self.atomic(kind, *pointer));
        }
        let feature = match (operation, operands) {
            (Op::ReadClockKHR, [_, _, scope]) if self.constants.get(scope) == Some(&(Scope::Device as u32)) => {
                Some("shaderDeviceClock".into())
            }
            (Op::ReadClockKHR, _) => Some("shaderSubgroupClock".into()),
            (Op::GroupNonUniformRotateKHR, [_, _, _, _, _, _cluster]) => Some("shaderSubgroupRotateClustered".into()),
            (Op::FmaKHR, [ty, ..]) => match self.types.get(ty) {
                Some(Type::Float { bits }) => Some(format!("shaderFmaFloat{bits}")),
                _ => None,
            },
            _ => None,
        };
        self.features.extend(feature);
        let subgroup_operations = Op::GroupNonUniformElect as u32..=Op::GroupNonUniformQuadSwap as u32;
        let is_extended = |operand: usize| {
            let ty = operands.get(operand).and_then(|id| self.values.get(id));
            ty.is_some_and(|ty| ty.is_extended())
        };
        // Operand 1 is the result; operand 3 is the value that OpGroupNonUniformAllEqual compares.
        if subgroup_operations.contains(&(operation as u32)) && (is_extended(1) || is_extended(3)) {
            self.features.insert("shaderSubgroupExtendedTypes".into());
        }
    }

    /// Returns the feature that an atomic operation of this kind needs for the pointer's memory and type, if any.
    fn atomic(&self, kind: &str, pointer: u32) -> Option<String> {
        let Some(&Type::Pointer { class, to }) = self.values.get(&pointer) else { return None };
        let memory = if class == StorageClass::Workgroup as u32 {
            "Shared"
        } else if class == StorageClass::Image as u32 {
            "Image"
        } else {
            "Buffer"
        };
        match *self.types.get(&to)? {
            Type::Float { bits: 16 } if self.vectors.contains(&to) => Some("shaderFloat16VectorAtomics".into()),
            Type::Integer { bits: 64 } => Some(format!("shader{memory}Int64Atomics")),
            Type::Float { bits } => Some(format!("shader{memory}Float{bits}{kind}")),
            Type::Integer { .. } | Type::Pointer { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_floats_round_is_a_feature_for_each_width() {
        let mode = |mode: ExecutionMode, bits| (Op::ExecutionMode, [1, mode as u32, bits]);
        let modes = [mode(ExecutionMode::RoundingModeRTE, 16), mode(ExecutionMode::DenormPreserve, 64)];
        let modes: Vec<(Op, &[u32])> = modes.iter().map(|(op, operands)| (*op, &operands[..])).collect();
        let size: (Op, &[u32]) = (Op::ExecutionMode, &[1, ExecutionMode::LocalSize as u32, 8, 8, 1]);
        let expected = ["shaderDenormPreserveFloat64", "shaderRoundingModeRTEFloat16"];
        assert_eq!(needed(StorageClass::StorageBuffer, &[&modes[..], &[size]].concat()), expected);
        let names: Vec<_> = crate::device::capability::Feature::ALL.iter().map(|feature| feature.name()).collect();
        for mode in FLOAT_CONTROLS {
            assert!([16, 32, 64].iter().all(|bits| names.contains(&&*format!("shader{mode:?}Float{bits}"))));
        }
    }

    /// Returns the features that a module needs. It declares the types f32 (1), i64 (2), i32 (3) and f16 (4), pointers
    /// of `class` to the first three (11, 12, 13) and variables of those (21, 22, 23); then come `instructions`.
    fn needed(class: StorageClass, instructions: &[(Op, &[u32])]) -> Vec<String> {
        let mut required = Required::default();
        let class = class as u32;
        let types: [(Op, &[u32]); 4] = [
            (Op::TypeFloat, &[1, 32]),
            (Op::TypeInt, &[2, 64, 1]),
            (Op::TypeInt, &[3, 32, 0]),
            (Op::TypeFloat, &[4, 16]),
        ];
        for (op, operands) in types {
            required.read(Some(op), operands);
        }
        for to in 1..=3 {
            required.read(Some(Op::TypePointer), &[10 + to, class, to]);
            required.read(Some(Op::Variable), &[10 + to, 20 + to, class]);
        }
        for (op, operands) in instructions {
            required.read(Some(*op), operands);
        }
        required.features.into_iter().collect()
    }

    #[test]
    fn float_atomics_need_the_feature_of_the_memory_that_they_touch() {
        let add: (Op, &[u32]) = (Op::AtomicFAddEXT, &[1, 31, 21, 0, 0, 5]);
        assert_eq!(needed(StorageClass::Workgroup, &[add]), ["shaderSharedFloat32AtomicAdd"]);
        assert_eq!(needed(StorageClass::PhysicalStorageBuffer, &[add]), ["shaderBufferFloat32AtomicAdd"]);
        let chain: (Op, &[u32]) = (Op::AccessChain, &[11, 30, 21, 7]);
        let exchange: (Op, &[u32]) = (Op::AtomicExchange, &[1, 31, 30, 0, 0, 5]);
        assert_eq!(needed(StorageClass::StorageBuffer, &[chain, exchange]), ["shaderBufferFloat32Atomics"]);
        let least: (Op, &[u32]) = (Op::AtomicFMinEXT, &[1, 31, 21, 0, 0, 5]);
        let store: (Op, &[u32]) = (Op::AtomicStore, &[21, 0, 0, 5]);
        let both = ["shaderSharedFloat32AtomicMinMax", "shaderSharedFloat32Atomics"];
        assert_eq!(needed(StorageClass::Workgroup, &[store, least]), both);
    }

    #[test]
    fn integer_atomics_need_one_where_they_are_wide() {
        let add: (Op, &[u32]) = (Op::AtomicIAdd, &[3, 31, 23, 0, 0, 5]);
        assert_eq!(needed(StorageClass::StorageBuffer, &[add]), [""; 0]);
        let wide: (Op, &[u32]) = (Op::AtomicIAdd, &[2, 31, 22, 0, 0, 5]);
        assert_eq!(needed(StorageClass::StorageBuffer, &[wide]), ["shaderBufferInt64Atomics"]);
    }

    #[test]
    fn clocks_extensions_and_reconvergence_need_theirs() {
        let device: (Op, &[u32]) = (Op::Constant, &[3, 40, Scope::Device as u32]);
        let subgroup: (Op, &[u32]) = (Op::Constant, &[3, 41, Scope::Subgroup as u32]);
        let read = |scope: &'static [u32]| (Op::ReadClockKHR, scope);
        let clocks = |scope| needed(StorageClass::StorageBuffer, &[device, subgroup, read(scope)]);
        assert_eq!(clocks(&[2, 50, 40]), ["shaderDeviceClock"]);
        assert_eq!(clocks(&[2, 50, 41]), ["shaderSubgroupClock"]);
        let mode: (Op, &[u32]) = (Op::ExecutionMode, &[1, ExecutionMode::MaximallyReconvergesKHR as u32]);
        assert_eq!(needed(StorageClass::StorageBuffer, &[mode]), ["shaderMaximalReconvergence"]);
        let mut name = b"SPV_AMD_shader_ballot".to_vec();
        name.resize(24, 0);
        let words: Vec<u32> = name.chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("a word"))).collect();
        assert_eq!(needed(StorageClass::StorageBuffer, &[(Op::Extension, &words)]), ["VK_AMD_shader_ballot"]);
    }

    #[test]
    fn sub_groups_need_one_for_other_types_than_those_of_32_bits() {
        let sum = |ty| -> Vec<String> {
            needed(StorageClass::StorageBuffer, &[(Op::GroupNonUniformFAdd, &[ty, 31, 9, 0, 5])])
        };
        assert_eq!(sum(1), [""; 0]);
        assert_eq!(sum(4), ["shaderSubgroupExtendedTypes"]);
        let compared: [(Op, &[u32]); 2] = [(Op::Load, &[2, 40, 22]), (Op::GroupNonUniformAllEqual, &[8, 41, 9, 40])];
        assert_eq!(needed(StorageClass::StorageBuffer, &compared), ["shaderSubgroupExtendedTypes"]);
    }
}
