//! Resolves descriptions to numbers and bytes, and reports every mistake that can be found without a device.

use super::axes;
use super::buffers::roles;
use super::description::{Described, Description, Fault, Formula, Kernel, OTHERS, OneOrMany, OrderedMap};
use super::expression::Values;
use super::init::missing;
use super::loaded::{self, LoadedKernel, LoadedPass};
use super::reference;
use super::resolved::{
    KernelConfiguration, Module, Reference, ResolvedBuffer, ResolvedPoint, ResolvedProblem, ShellCommand,
};
use crate::algorithms::catalogue::Catalogue;
use crate::basis::alike::distinct;
use crate::basis::error::Error;
use crate::basis::printable::brief;
use crate::basis::units::{Bytes, Work};
use crate::kernel::buffer::Role;
use crate::kernel::interface::Slot;

/// Most choices of specialization constants per kernel.
const MAX_CHOICES: usize = 10_000;

/// Most characters in a name.
const MAX_NAME_LEN: usize = 60;

/// Most points times configurations.
const MAX_RUNS: usize = 100_000;

/// Resolves descriptions of one problem, which the first one defines. Errors name file and line.
pub fn resolve(catalogue: &Catalogue, described: &[Described]) -> Result<ResolvedProblem, Error> {
    let Some(first) = described.first() else { return Err(Error::Usage("there is no kernel to run".into())) };
    let mut run = resolve_one(catalogue, first, None).map_err(|fault| first.error(&fault))?;
    for other in &described[1..] {
        let mut inherited = other.clone();
        inherited.description.inherit(first);
        let more = resolve_one(catalogue, &inherited, Some(&run)).map_err(|fault| other.error(&fault))?;
        for (point, more) in run.points.iter_mut().zip(more.points) {
            point.pass_lists.extend(more.pass_lists);
        }
        run.modules.extend(more.modules);
        run.sources.extend(more.sources);
        run.configurations.extend(more.configurations);
    }
    Ok(run)
}

impl Description {
    /// Lists the shell commands, each with its field.
    pub fn commands(&self) -> Vec<(&'static str, String)> {
        let reference = self.reference.as_ref().and_then(|reference| reference.command.clone());
        let inputs = self.inputs.as_ref().and_then(|inputs| inputs.command.clone());
        let named = |field: &'static str| move |command| (field, command);
        inputs.map(named("inputs.command")).into_iter().chain(reference.map(named("reference.command"))).collect()
    }

    /// Fills in the parts of the problem that this description leaves out from another one.
    fn inherit(&mut self, from: &Described) {
        let other = &from.description;
        if self.axes.is_empty() {
            self.axes = other.axes.clone();
        }
        if self.buffer.is_empty() {
            self.buffer = other.buffer.clone();
            for (_, buffer) in &mut self.buffer.0 {
                if let Some(file) = buffer.fill.as_deref().and_then(|fill| fill.strip_prefix('@')) {
                    let path = from.path(file);
                    buffer.fill = Some(format!("@{}", std::path::absolute(&path).unwrap_or(path).display()));
                }
            }
            // Buffers bound by set and binding fit blocks of any name.
            if let (Some(kernel), Some(first)) = (&mut self.kernel, &other.kernel)
                && kernel.bind.is_empty()
            {
                kernel.bind = first.bind.clone();
            }
            if self.uniform.is_empty() {
                self.uniform = other.uniform.clone();
            }
            if self.push.is_empty() {
                self.push = other.push.clone();
            }
        }
        // The first description decides on the reference, the work and the inputs, because its folder holds their
        // files.
        self.reference = None;
        self.work = None;
        self.inputs.clone_from(&other.inputs);
    }
}

/// Description with its buffers' roles, to be resolved point by point.
pub(super) struct Resolver<'a> {
    /// Algorithms that may be references.
    pub(super) catalogue: &'a Catalogue,
    pub(super) described: &'a Described,
    /// Role of each buffer, in the description's order.
    pub(super) roles: Vec<Role>,
    /// Names of specialization constants; only shapes of scratch buffers may use them.
    pub(super) constants: Vec<String>,
    /// Modules of all passes so far, numbered from `first_module` on.
    pub(super) modules: Vec<Module>,
    pub(super) first_module: usize,
}

/// Resolves one description. Its passes use modules and buffers as the run numbers them that the `first` description of
/// the same problem made.
fn resolve_one(
    catalogue: &Catalogue,
    described: &Described,
    first: Option<&ResolvedProblem>,
) -> Result<ResolvedProblem, Fault> {
    let description = &described.description;
    if let Some(lacks) = missing(described)? {
        return Err(Fault::new("", lacks));
    }
    let programs = loaded::programs(described)?;
    let right = loaded::reference(described)?;
    let everything: Vec<&LoadedKernel> = programs.iter().chain(&right).collect();
    let passes = || everything.iter().flat_map(|kernel| &kernel.passes);
    check_fields(description, &everything)?;
    let roles = roles(description, &everything)?;
    let constants = passes().flat_map(|pass| pass.interface.constants.iter());
    let constants = constants.map(|constant| constant.name.to_string()).collect();
    let first_module = first.map_or(0, |first| first.modules.len());
    let mut resolver = Resolver { catalogue, described, roles, constants, modules: vec![], first_module };
    let mut choices = vec![];
    for program in &programs {
        choices.extend(combinations(description, program)?.into_iter().map(|choice| (program, choice)));
    }
    let axes: Vec<String> = description.axes.names().into_iter().map(ToString::to_string).collect();
    let points = resolver.points(&choices, right.as_ref(), &axes, first)?;
    if let Some(name) = &description.name {
        check_name(name).map_err(|message| Fault::new("name", message))?;
    }
    let file = described.file.iter().map(|(path, _)| path);
    Ok(ResolvedProblem {
        name: description.name.clone().unwrap_or_else(|| programs[0].name.clone()),
        axes,
        free: axes::free(&description.axes),
        modules: resolver.modules,
        configurations: choices.iter().map(|(program, choice)| configuration(description, program, choice)).collect(),
        points,
        sources: file.chain(passes().flat_map(|pass| &pass.compiled.files)).cloned().collect(),
        commands: description.commands(),
        captured: description.captured.clone(),
    })
}

/// Names a choice: only constants that have several values distinguish choices.
fn configuration(description: &Description, program: &LoadedKernel, choice: &Kernel) -> KernelConfiguration {
    let listed = |name: &str| description.spec.get(name).is_some_and(|listed| listed.values().len() > 1);
    let shown = choice.spec.iter().filter(|(name, _)| listed(name));
    let shown = shown.map(|(name, value)| (name.to_string(), value.to_string()));
    let subgroup = choice.subgroups().iter().map(|size| ("subgroup".to_string(), size.to_string()));
    KernelConfiguration { kernel: program.name.clone(), choice: shown.chain(subgroup).collect() }
}

impl Resolver<'_> {
    /// Resolves the points that the axes span: those of the `first` description, if there is one.
    fn points(
        &mut self,
        choices: &[(&LoadedKernel, Kernel)],
        right: Option<&LoadedKernel>,
        axes: &[String],
        first: Option<&ResolvedProblem>,
    ) -> Result<Vec<ResolvedPoint>, Fault> {
        let description = &self.described.description;
        let spanned = axes::points(&description.axes)?;
        let (span, kernels) = (spanned.len(), choices.len());
        if span.saturating_mul(kernels) > MAX_RUNS {
            let message = format!("span {span} points for {kernels} kernels and choices; {MAX_RUNS} are the most");
            return Err(Fault::new("axes", format!("{message}: list fewer values")));
        }
        if let Some(first) = first.filter(|first| first.axes != axes) {
            let (own, others) = (axes.join(", "), first.axes.join(", "));
            let message = format!("its axes are {own}, those of the first description {others}; make them the same");
            return Err(Fault::new("", message));
        }
        let unlike =
            || Fault::new("", "its axes have other values than those of the first description; make them the same");
        let mut points: Vec<ResolvedPoint> = vec![];
        for values in spanned {
            let scope = Values::of(axes, &values);
            if conditions_hold(description, &scope)? {
                let same = |first: &&ResolvedPoint| first.values == values;
                let shared = first.map(|first| first.points.get(points.len()).filter(same).ok_or_else(unlike));
                let shared = shared.transpose()?.map(|point| &point.buffers[..]);
                points.push(self.point(choices, right, values, &scope, shared)?);
            }
        }
        if points.is_empty() {
            return Err(Fault::new("where", "rules out every combination of the axes; loosen a condition"));
        }
        if points.iter().all(|point| point.pass_lists.iter().all(Result::is_err)) {
            let reason = points[0].pass_lists.iter().find_map(|list| list.as_ref().err()).cloned().unwrap_or_default();
            return Err(Fault::new("where", format!("rules out everything: {reason}")));
        }
        if first.is_some_and(|first| first.points.len() != points.len()) {
            return Err(unlike());
        }
        Ok(points)
    }

    /// Resolves one point of the axes, whose buffers are those of the first description, if there is one.
    fn point(
        &mut self,
        choices: &[(&LoadedKernel, Kernel)],
        right: Option<&LoadedKernel>,
        values: Vec<i64>,
        scope: &Values,
        first: Option<&[ResolvedBuffer]>,
    ) -> Result<ResolvedPoint, Fault> {
        let Described { description, folder, .. } = self.described;
        let mut buffers = self.buffers(scope, |role| role != Role::Scratch)?;
        if !buffers.iter().any(|buffer| buffer.role.is_output()) {
            let message = "has no output: every one is filled; add `check` to that which kernels write";
            return Err(Fault::new("buffer", message));
        }
        if let Some(first) = first {
            for ResolvedBuffer { name, element, shape, .. } in &buffers {
                let same =
                    |known: &ResolvedBuffer| (&known.name, known.element, &known.shape) == (name, *element, shape);
                if !first.iter().any(same) {
                    let message =
                        format!("its buffer {name} of {element}{shape:?} is not one of the first description");
                    return Err(Fault::new("", format!("{message}; describe the same problem")));
                }
            }
            buffers = first.to_vec();
        }
        let mut pass_lists = vec![];
        for (program, choice) in choices {
            pass_lists.push(self.passes(program, choice, scope, &buffers)?);
        }
        let inputs = description.inputs.as_ref().and_then(|inputs| inputs.command.as_ref());
        let inputs = inputs.map(|line| ShellCommand { line: scope.replace(line), folder: folder.clone() });
        let reference = match right {
            None => reference::reference(self.catalogue, self.described, &buffers, scope)?,
            Some(program) => {
                let list = self.passes(program, &Kernel::default(), scope, &buffers)?;
                let list = list.map_err(|reason| Fault::new("reference.kernel", reason))?;
                reference::kind(description)?;
                Reference::Kernel(list)
            }
        };
        let work = work(description, &buffers, scope)?;
        Ok(ResolvedPoint { values, buffers, reference, inputs, work, pass_lists })
    }
}

/// Checks a name for tables, ids and files.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !"/\\".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME_LEN || !name.chars().all(plain) {
        return Err(format!(
            "'{}' is not a valid name; use 1 to {MAX_NAME_LEN} characters, no space and no slash",
            brief(name)
        ));
    }
    Ok(())
}

/// Evaluates the nominal work at a point.
fn work(description: &Description, buffers: &[ResolvedBuffer], scope: &Values) -> Result<Work, Fault> {
    let stated = description.work.clone().unwrap_or_default();
    let evaluated = |field: &str, formula: &Option<Formula>| {
        let Some(formula) = formula else { return Ok(None) };
        let fault = |message: String| Fault::new(format!("work.{field}"), message);
        // Evaluated in f64, because intermediate values may exceed 64 bits or have fractions.
        let count = formula.expression().and_then(|e| e.number(scope)).map_err(fault)?;
        if count < 0.0 || count >= 2f64.powi(63) {
            return Err(fault(format!("is {count}; it is a count from 0 to 2^63 - 1")));
        }
        Ok(Some(count as u64))
    };
    let crossing = |buffer: &ResolvedBuffer| match buffer.role {
        Role::InPlace => 2 * buffer.bytes(),
        Role::Input | Role::Output => buffer.bytes(),
        Role::Scratch => 0,
    };
    let bytes = evaluated("bytes", &stated.bytes)?;
    let bytes = bytes.unwrap_or_else(|| buffers.iter().map(crossing).sum());
    Ok(Work { operations: evaluated("flops", &stated.flops)?.unwrap_or(0), bytes: Bytes(bytes) })
}

/// Returns whether the conditions that use only axes hold at a point.
fn conditions_hold(description: &Description, scope: &Values) -> Result<bool, Fault> {
    for (name, formula) in description.conditions.iter() {
        let fault = |message: String| Fault::new(format!("where.{name}"), message);
        let condition = formula.expression().map_err(fault)?;
        let of_axes = condition.names().into_iter().all(|name| description.axes.get(name).is_some());
        if of_axes && condition.value(scope).map_err(fault)? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks that a kernel has every specialization constant, push constant and block of the description, and that each
/// pass has those set for it.
fn check_fields(description: &Description, programs: &[&LoadedKernel]) -> Result<(), Fault> {
    let passes: Vec<&LoadedPass> = programs.iter().flat_map(|program| &program.passes).collect();
    let unknown = |what: &str, field: String, name: &str, mut known: Vec<String>| {
        known.retain(|name| !name.is_empty());
        known.sort();
        known.dedup();
        let message = if known.is_empty() {
            let sources = distinct(passes.iter().map(|pass| pass.file()));
            let has = if sources.len() == 1 { "has" } else { "have" };
            // The description may fit a different kernel.
            let remedy =
                if description.kernel.is_some() { ", or describe the kernel in a file of its own" } else { "" };
            format!("{} {has} no {what}s; leave '{}' out{remedy}", sources.join(", "), brief(name))
        } else {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            crate::basis::error::unknown(what, name, "", &known)
        };
        Err(Fault::new(field, message))
    };
    for pass in &passes {
        let mut stated: Vec<(&str, u32)> = vec![];
        for name in description.spec.names() {
            let Some(constant) = pass.constant(name) else { continue };
            // A constant may be set by name and by id; the second value would be ignored.
            if let Some((other, _)) = stated.iter().find(|(_, id)| *id == constant.id) {
                let message = format!("is the same constant as {other}; set only one of them");
                return Err(Fault::new(format!("spec.{name}"), message));
            }
            stated.push((name, constant.id));
        }
    }
    let Description { spec, push, uniform, .. } = description;
    check_names(&passes, [spec.names(), push.names()], uniform, &str::to_string, unknown)?;
    for pass in &passes {
        let Kernel { spec, push, uniform, .. } = &pass.stated;
        check_names(&[*pass], [spec.names(), push.names()], uniform, &|name| pass.field(name), unknown)?;
    }
    Ok(())
}

/// Checks that one of `passes` has each of these specialization constants, push constants and members of blocks.
/// `field` names a field in messages.
fn check_names(
    passes: &[&LoadedPass],
    [spec, push]: [Vec<&str>; 2],
    uniform: &OrderedMap<OrderedMap<Formula>>,
    field: &dyn Fn(&str) -> String,
    unknown: impl Fn(&str, String, &str, Vec<String>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let arguments = || passes.iter().flat_map(|pass| pass.interface.arguments.iter());
    let slots = || passes.iter().flat_map(|pass| pass.interface.slots.iter());
    if let Some(name) = spec.into_iter().find(|name| passes.iter().all(|pass| pass.constant(name).is_none())) {
        let known = passes.iter().flat_map(|pass| pass.interface.constants.iter().map(loaded::constant_key));
        return unknown("specialization constant", field(&format!("spec.{name}")), name, known.collect());
    }
    let is_open = |name: &&str| *name != OTHERS && !arguments().any(|member| member.is_called(name));
    if let Some(name) = push.into_iter().find(is_open) {
        let known = arguments().map(|member| member.name.to_string()).collect();
        return unknown("push constant", field(&format!("push.{name}")), name, known);
    }
    for (name, stated) in uniform.iter() {
        let is_unused = |pass: &&LoadedPass| pass.compiled.unused.iter().any(|unused| unused == name);
        if !slots().any(|slot| slot.is_called(name)) && !passes.iter().any(is_unused) {
            let known = slots().flat_map(Slot::names).map(ToString::to_string).collect();
            return unknown("block", field(&format!("uniform.{name}")), name, known);
        }
        let blocks = || slots().filter(|slot| slot.is_called(name)).flat_map(|slot| slot.blocks.iter());
        let is_open = |member: &&str| *member != OTHERS && !blocks().any(|block| block.member(member).is_some());
        if let Some(member) = stated.names().into_iter().find(is_open) {
            let known = blocks().flat_map(|block| block.members.iter()).map(|member| member.name.to_string());
            return unknown("member", field(&format!("uniform.{name}.{member}")), member, known.collect());
        }
    }
    Ok(())
}

/// Lists every combination of the program's specialization constants that have several values and of its sub-group
/// sizes, as `spec` and `subgroup` of a kernel.
fn combinations(description: &Description, program: &LoadedKernel) -> Result<Vec<Kernel>, Fault> {
    let mut choices = vec![Kernel::default()];
    for (name, listed) in description.spec.iter() {
        if program.passes.iter().all(|pass| pass.constant(name).is_none()) {
            continue;
        }
        if listed.values().is_empty() {
            return Err(Fault::new(format!("spec.{name}"), "is an empty list; give it a value, or leave it out"));
        }
        choices = multiplied(&choices, listed.values(), |choice, value| choice.spec.set(name, value))?;
    }
    for pass in program.passes.iter().filter(|pass| pass.stated.subgroups().len() > 1) {
        if !pass.prefix.is_empty() {
            return Err(Fault::new(pass.field("subgroup"), "is a list, which [kernel] alone may have; write one size"));
        }
        choices = multiplied(&choices, pass.stated.subgroups(), |choice, size| {
            choice.subgroup = Some(OneOrMany::One(size));
        })?;
    }
    Ok(choices)
}

/// Combines each of `choices` with each of `values`.
fn multiplied(
    choices: &[Kernel],
    values: &[Formula],
    set: impl Fn(&mut Kernel, Formula),
) -> Result<Vec<Kernel>, Fault> {
    if choices.len().saturating_mul(values.len()) > MAX_CHOICES {
        return Err(Fault::new("spec", format!("spans more than {MAX_CHOICES} choices; list fewer values")));
    }
    let mut all = vec![];
    for choice in choices {
        for value in values {
            let mut choice = choice.clone();
            set(&mut choice, value.clone());
            all.push(choice);
        }
    }
    Ok(all)
}
