//! Reads from SPIR-V what a host needs to run the kernel: work-group size, specialization constants, arguments
//! (the push-constant block), texel views, shared memory and the capabilities it declares.

use rspirv::dr::{Instruction, Module, Operand};
use rspirv::spirv::{BuiltIn, Decoration, Dim, ExecutionMode, Op, StorageClass};

/// The fields of a `Shader` literal that reflection finds, as Rust source text.
pub(crate) fn interface(binary: &[u8]) -> Result<String, String> {
    let (binary, size_ids) = without_size_ids(binary);
    let module = rspirv::dr::load_bytes(&binary).map_err(|e| format!("cannot parse the SPIR-V: {e}"))?;
    let reflector = Reflector { module: &module, size_ids };
    Ok(format!(
        "local_size: [{}], constants: &[{}], arguments: &[{}], views: &[{}], shared: &[{}], capabilities: &[{}]",
        reflector.local_size()?.join(", "),
        reflector.constants().join(", "),
        reflector.arguments()?.join(", "),
        reflector.views()?.join(", "),
        reflector.shared()?.join(", "),
        reflector.capabilities().join(", "),
    ))
}

/// The module without its `OpExecutionModeId … LocalSizeId x y z`, which rspirv 0.13 takes for an instruction of a
/// function, and the three ids. SPIR-V 1.6 says the work-group size so (section 3.6).
fn without_size_ids(binary: &[u8]) -> (Vec<u8>, Option<[u32; 3]>) {
    const HEADER: usize = 5;
    const EXECUTION_MODE_ID: u32 = 331;
    const LOCAL_SIZE_ID: u32 = 38;
    let words: Vec<u32> =
        binary.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect();
    let mut kept = words[..HEADER.min(words.len())].to_vec();
    let mut found = None;
    let mut at = HEADER;
    while at < words.len() {
        // A count of 0 is malformed: leave it to the parser to say so.
        let end = (at + ((words[at] >> 16) as usize).max(1)).min(words.len());
        match words[at..end] {
            [first, _, LOCAL_SIZE_ID, x, y, z] if first & 0xffff == EXECUTION_MODE_ID => found = Some([x, y, z]),
            _ => kept.extend(&words[at..end]),
        }
        at = end;
    }
    (kept.iter().flat_map(|word| word.to_le_bytes()).collect(), found)
}

struct Reflector<'a> {
    module: &'a Module,
    /// The ids of the work-group size, where it is not said otherwise.
    size_ids: Option<[u32; 3]>,
}

impl<'a> Reflector<'a> {
    fn definition(&self, id: u32) -> Result<&'a Instruction, String> {
        self.module
            .types_global_values
            .iter()
            .find(|instruction| instruction.result_id == Some(id))
            .ok_or_else(|| format!("%{id} has no definition"))
    }

    /// The operands after the decoration itself, for a decoration of `id` (or of its `member`).
    fn decoration(&self, id: u32, member: Option<u32>, wanted: Decoration) -> Option<&'a [Operand]> {
        self.module.annotations.iter().find_map(|instruction| {
            let operands = instruction.operands.as_slice();
            match (instruction.class.opcode, member, operands) {
                (Op::Decorate, None, [Operand::IdRef(target), Operand::Decoration(decoration), rest @ ..])
                    if *target == id && *decoration == wanted =>
                {
                    Some(rest)
                }
                (
                    Op::MemberDecorate,
                    Some(member),
                    [Operand::IdRef(target), Operand::LiteralBit32(index), Operand::Decoration(decoration), rest @ ..],
                ) if *target == id && *index == member && *decoration == wanted => Some(rest),
                _ => None,
            }
        })
    }

    fn spec_id(&self, id: u32) -> Option<u32> {
        match self.decoration(id, None, Decoration::SpecId)? {
            [Operand::LiteralBit32(spec)] => Some(*spec),
            _ => None,
        }
    }

    fn name(&self, id: u32, member: Option<u32>) -> String {
        let found = self.module.debug_names.iter().find_map(|instruction| {
            match (instruction.class.opcode, member, instruction.operands.as_slice()) {
                (Op::Name, None, [Operand::IdRef(target), Operand::LiteralString(name)]) if *target == id => Some(name),
                (
                    Op::MemberName,
                    Some(member),
                    [Operand::IdRef(target), Operand::LiteralBit32(index), Operand::LiteralString(name)],
                ) if *target == id && *index == member => Some(name),
                _ => None,
            }
        });
        found.cloned().unwrap_or_default()
    }

    /// The work-group size: the composite decorated `BuiltIn WorkgroupSize` where there is one (it overrides the
    /// execution mode: SPIR-V section 3.6), else the `LocalSize` mode.
    fn local_size(&self) -> Result<Vec<String>, String> {
        let composite = self.module.types_global_values.iter().find(|instruction| {
            instruction.result_id.is_some_and(|id| {
                matches!(
                    self.decoration(id, None, Decoration::BuiltIn),
                    Some([Operand::BuiltIn(BuiltIn::WorkgroupSize)])
                )
            })
        });
        if let Some(composite) = composite {
            return ids(composite).map(|id| self.word(id)).collect();
        }
        if let Some(sizes) = self.size_ids {
            return sizes.into_iter().map(|id| self.word(id)).collect();
        }
        let mode = self.module.execution_modes.iter().find_map(|mode| match mode.operands.as_slice() {
            [_, Operand::ExecutionMode(ExecutionMode::LocalSize), sizes @ ..] => Some(sizes),
            _ => None,
        });
        let sizes = mode.ok_or("the kernel declares no work-group size")?;
        Ok(sizes.iter().map(|size| format!("Word::Literal({})", literal(size))).collect())
    }

    /// A constant or specialization constant as a `Word` literal.
    fn word(&self, id: u32) -> Result<String, String> {
        let definition = self.definition(id)?;
        match (definition.class.opcode, self.spec_id(id)) {
            (Op::SpecConstant, Some(spec)) => {
                Ok(format!("Word::Constant {{ id: {spec}, default: {} }}", literal(&definition.operands[0])))
            }
            (Op::Constant, _) => Ok(format!("Word::Literal({})", literal(&definition.operands[0]))),
            (other, _) => Err(format!("%{id} is {other:?}, not a 32-bit constant")),
        }
    }

    /// The named specialization constants. Those that only set the work-group size have no name and are left to
    /// `local_size`.
    fn constants(&self) -> Vec<String> {
        let constants = self.module.types_global_values.iter().filter_map(|instruction| {
            let id = instruction.result_id?;
            let spec = self.spec_id(id)?;
            let name = self.name(id, None);
            (!name.is_empty()).then(|| format!("SpecConstant {{ name: {name:?}, id: {spec} }}"))
        });
        constants.collect()
    }

    /// The members of the push-constant block, in memory order.
    fn arguments(&self) -> Result<Vec<String>, String> {
        let Some(variable) = self.variables(StorageClass::PushConstant).next() else { return Ok(vec![]) };
        let block = self.definition(self.pointee(variable)?)?;
        let block_id = block.result_id.ok_or("the push-constant block has no id")?;
        let mut arguments = vec![];
        for (index, member) in ids(block).enumerate() {
            let index = index as u32;
            let name = self.name(block_id, Some(index));
            let Some([Operand::LiteralBit32(offset)]) = self.decoration(block_id, Some(index), Decoration::Offset)
            else {
                return Err(format!("argument {name} has no offset"));
            };
            let kind = match (self.definition(member)?.class.opcode, self.definition(member)?.operands.as_slice()) {
                (Op::TypePointer, _) => "Address",
                (Op::TypeInt, [Operand::LiteralBit32(32), _]) => "U32",
                (Op::TypeFloat, [Operand::LiteralBit32(32), ..]) => "F32",
                (other, _) => {
                    return Err(format!("argument {name} is a {other:?}; use a buffer reference, uint or float"));
                }
            };
            arguments.push(format!("Argument {{ name: {name:?}, offset: {offset}, kind: ArgumentKind::{kind} }}"));
        }
        Ok(arguments)
    }

    /// The names of the texel views (`samplerBuffer`), in the order of their bindings 0, 1, … of set 0.
    fn views(&self) -> Result<Vec<String>, String> {
        let mut views = vec![];
        for variable in self.variables(StorageClass::UniformConstant) {
            let id = variable.result_id.ok_or("a variable has no id")?;
            let name = self.name(id, None);
            let image = self.definition(self.pointee(variable)?)?;
            let image = match image.class.opcode {
                Op::TypeSampledImage => self.definition(ids(image).next().ok_or("a sampled image has no type")?)?,
                _ => image,
            };
            let [Operand::IdRef(texel), Operand::Dim(Dim::DimBuffer), ..] = image.operands.as_slice() else {
                return Err(format!("{name} is neither an argument nor a texel view (samplerBuffer)"));
            };
            if self.definition(*texel)?.class.opcode != Op::TypeFloat {
                return Err(format!("{name} has texels of integers; views are made of four f32 (samplerBuffer)"));
            }
            let literal = |decoration| match self.decoration(id, None, decoration) {
                Some([Operand::LiteralBit32(value)]) => Ok(*value),
                _ => Err(format!("{name} has no {decoration:?}")),
            };
            if literal(Decoration::DescriptorSet)? != 0 {
                return Err(format!("{name} is not in set 0"));
            }
            views.push((literal(Decoration::Binding)?, name));
        }
        views.sort();
        match (0..).zip(&views).find(|(expected, (binding, _))| expected != binding) {
            Some((expected, (_, name))) => {
                Err(format!("{name} must have binding {expected}: they are numbered from 0"))
            }
            None => Ok(views.into_iter().map(|(_, name)| format!("{name:?}")).collect()),
        }
    }

    fn variables(&self, class: StorageClass) -> impl Iterator<Item = &'a Instruction> {
        self.module.types_global_values.iter().filter(move |instruction| {
            instruction.class.opcode == Op::Variable
                && instruction.operands.first() == Some(&Operand::StorageClass(class))
        })
    }

    fn pointee(&self, variable: &Instruction) -> Result<u32, String> {
        let pointer = self.definition(variable.result_type.ok_or("a variable has no type")?)?;
        ids(pointer).next().ok_or_else(|| "a pointer points to no type".into())
    }

    /// Bytes of shared memory as a sum in reverse Polish notation, since array lengths may depend on
    /// specialization constants.
    fn shared(&self) -> Result<Vec<String>, String> {
        let mut program = vec!["SizeOp::Push(Word::Literal(0))".to_string()];
        for variable in self.variables(StorageClass::Workgroup) {
            self.type_bytes(self.pointee(variable)?, &mut program)?;
            program.push("SizeOp::Add".into());
        }
        Ok(program)
    }

    fn type_bytes(&self, id: u32, program: &mut Vec<String>) -> Result<(), String> {
        let definition = self.definition(id)?;
        match (definition.class.opcode, definition.operands.as_slice()) {
            (Op::TypeInt | Op::TypeFloat, [Operand::LiteralBit32(bits), ..]) => {
                program.push(format!("SizeOp::Push(Word::Literal({}))", bits / 8));
            }
            (Op::TypeBool, _) => program.push("SizeOp::Push(Word::Literal(4))".into()),
            (Op::TypeVector, [Operand::IdRef(element), Operand::LiteralBit32(count)]) => {
                self.type_bytes(*element, program)?;
                program.push(format!("SizeOp::Push(Word::Literal({count}))"));
                program.push("SizeOp::Mul".into());
            }
            (Op::TypeArray, [Operand::IdRef(element), Operand::IdRef(length)]) => {
                self.type_bytes(*element, program)?;
                self.value(*length, program)?;
                program.push("SizeOp::Mul".into());
            }
            (other, _) => return Err(format!("shared memory of {other:?} is not understood by build/reflect.rs")),
        }
        Ok(())
    }

    /// A constant expression over specialization constants.
    fn value(&self, id: u32, program: &mut Vec<String>) -> Result<(), String> {
        let definition = self.definition(id)?;
        if definition.class.opcode != Op::SpecConstantOp {
            program.push(format!("SizeOp::Push({})", self.word(id)?));
            return Ok(());
        }
        let operation = match definition.operands.first() {
            Some(Operand::LiteralSpecConstantOpInteger(operation)) => *operation,
            other => return Err(format!("%{id} applies {other:?}")),
        };
        if operation == Op::CompositeExtract {
            let composite = self.definition(ids(definition).next().ok_or("an extract has no operand")?)?;
            let index = literal(definition.operands.last().ok_or("an extract has no index")?) as usize;
            let part = ids(composite).nth(index).ok_or("an extract is out of range")?;
            return self.value(part, program);
        }
        let operands: Vec<u32> = ids(definition).collect();
        // `a > b ? a : b`
        if let (Op::Select, &[condition, a, b]) = (operation, operands.as_slice()) {
            let compared = self.definition(condition)?;
            let greater = Operand::LiteralSpecConstantOpInteger(Op::UGreaterThan);
            if compared.operands.first() != Some(&greater) || ids(compared).collect::<Vec<_>>() != [a, b] {
                return Err("an array length selects other than the larger of two, `a > b ? a : b`".into());
            }
            self.value(a, program)?;
            self.value(b, program)?;
            program.push("SizeOp::Max".into());
            return Ok(());
        }
        for operand in operands {
            self.value(operand, program)?;
        }
        program.push(match operation {
            Op::IAdd => "SizeOp::Add".into(),
            Op::IMul => "SizeOp::Mul".into(),
            Op::ISub => "SizeOp::Sub".into(),
            Op::UDiv | Op::SDiv => "SizeOp::Div".into(),
            other => return Err(format!("an array length uses {other:?}, which build/reflect.rs does not know")),
        });
        Ok(())
    }

    fn capabilities(&self) -> Vec<String> {
        let name = |instruction: &Instruction| match instruction.operands.first() {
            Some(Operand::Capability(capability)) => Some(format!("\"{capability:?}\"")),
            _ => None,
        };
        self.module.capabilities.iter().filter_map(name).collect()
    }
}

/// The ids among an instruction's operands.
fn ids(instruction: &Instruction) -> impl Iterator<Item = u32> {
    instruction.operands.iter().filter_map(|operand| match operand {
        Operand::IdRef(id) => Some(*id),
        _ => None,
    })
}

fn literal(operand: &Operand) -> u32 {
    match operand {
        Operand::LiteralBit32(value) => *value,
        _ => 0,
    }
}
