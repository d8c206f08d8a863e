//! Resolves descriptions to numbers and bytes, and reports every mistake that can be found without a device.
//!
//! From the text of a user to the work of a device:
//! - A *description* states one problem (axes, buffers, reference) and the kernels that solve it.
//! - A *kernel* is one way to solve the problem: a source of `[kernel]`, or all `[[pass]]` tables in order.
//! - A *pass* is one compiled source of a kernel. In a loop, it becomes several dispatches.
//! - A *choice* picks one value for each specialization constant and sub-group size that lists several.
//! - A *configuration* is a kernel with a choice. Configurations compete with each other.
//! - A *point* gives each axis one value. There, each configuration becomes a list of dispatches.

use super::analyzed::AnalyzedPass;
use super::axes;
use super::buffers::{bound_buffers, find_roles};
use super::builtin::Counterpart;
use super::description::{
    Described, DescribedBuffer, Description, Fault, Formula, KernelFields, OTHERS, OrderedMap, is_on_path,
};
use super::expression::Values;
use super::images::{DeclaredImage, find_images};
use super::init::missing;
use super::loaded::{self, CaseKernel, LoadedKernel, LoadedPass, OtherKernels};
use super::members::Members;
use super::reference;
use super::resolved::{
    KernelConfiguration, LeftOut, Module, PassList, Reference, ResolvedBuffer, ResolvedPoint, ResolvedProblem,
    ShellCommand,
};
use super::structure::{StructureLayout, find_layouts};
use crate::algorithms::catalogue::Catalogue;
use crate::basis::alike::distinct;
use crate::basis::dtype::DType;
use crate::basis::error::{self, Error};
use crate::basis::printable::brief;
use crate::basis::units::{Bytes, Work};
use crate::kernel::buffer::Role;
use crate::kernel::image::Image;
use crate::kernel::interface::Slot;
use std::collections::BTreeMap;

/// Most choices of specialization constants per kernel.
const MAX_CHOICES: usize = 10_000;

/// Most characters in a name.
const MAX_NAME_LEN: usize = 60;

/// Most points times configurations.
const MAX_RUNS: usize = 100_000;

/// Resolves descriptions of one problem, which the first one defines. Errors name file and line.
pub fn resolve(catalogue: &Catalogue, described: &[Described]) -> Result<ResolvedProblem, Error> {
    let Some(first) = described.first() else { return Err(Error::Usage("there is no kernel to run".into())) };
    let case = CaseKernel::of(described).map_err(|fault| first.error(&fault))?;
    let others = OtherKernels::of(first, described, 0);
    let mut problem = resolve_one(catalogue, &others, None, case.as_ref()).map_err(|fault| first.error(&fault))?;
    for (index, later) in described.iter().enumerate().skip(1) {
        let mut inherited = later.clone();
        inherited.inherit(first);
        // A description with buffers of its own inherits no values.
        let case = case.as_ref().filter(|_| inherited.inherited.contains(&"buffer"));
        let others = OtherKernels::of(&inherited, described, index);
        let addition = resolve_one(catalogue, &others, Some(&problem), case).map_err(|fault| later.error(&fault))?;
        for (point, added) in problem.points.iter_mut().zip(addition.points) {
            point.pass_lists.extend(added.pass_lists);
            point.buffers = added.buffers;
        }
        problem.modules.extend(addition.modules);
        problem.sources.extend(addition.sources);
        problem.left_out.extend(addition.left_out);
        problem.partial_groups = problem.partial_groups.into_iter().chain(addition.partial_groups).reduce(|a, b| a & b);
        let mut configurations = addition.configurations;
        tell_apart(&mut configurations, &problem.configurations, later, &described[..index]);
        problem.configurations.extend(configurations);
    }
    Ok(problem)
}

/// Renames kernels that are called as kernels of the descriptions before, such as `saxpy` of base/saxpy.toml and
/// new/saxpy.toml: by the folder or the file of their description, or else by a number. Kernels of one name would be
/// choices of one kernel, of which only the first runs.
fn tell_apart(
    configurations: &mut [KernelConfiguration],
    known: &[KernelConfiguration],
    later: &Described,
    before: &[Described],
) {
    let file = |described: &Described| described.file.as_ref().map(|(path, _)| path.clone());
    let others: Vec<_> = before.iter().filter_map(file).collect();
    let folder = file(later).and_then(|path| loaded::distinguishing_folder(&path, &others));
    let stem = file(later).and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let is_known = |name: &str| known.iter().any(|configuration| configuration.kernel == name);
    for configuration in configurations.iter_mut().filter(|configuration| is_known(&configuration.kernel)) {
        let own = &configuration.kernel;
        let qualifiers = folder.iter().chain(&stem).filter(|qualifier| *qualifier != own);
        let qualified = qualifiers.map(|qualifier| format!("{qualifier}:{own}"));
        let numbered = (2..).map(|number| format!("{own}-{number}"));
        if let Some(name) = qualified.chain(numbered).find(|name| !is_known(name)) {
            configuration.kernel = name;
        }
    }
}

impl Description {
    /// Lists the shell commands, each with its field.
    pub fn commands(&self) -> Vec<(&'static str, String)> {
        let inputs = self.inputs.as_ref().and_then(|inputs| inputs.command.clone());
        let reference = self.reference.as_ref().and_then(|reference| reference.command.clone());
        let mut commands = vec![];
        commands.extend(inputs.map(|command| ("inputs.command", command)));
        commands.extend(reference.map(|command| ("reference.command", command)));
        commands
    }
}

impl Described {
    /// Whether the file states an entry of a table, and not only options do, which set the first description's as well.
    fn states(&self, table: &str, names: &[&str]) -> bool {
        names.iter().any(|name| {
            let field = format!("{table}.{name}");
            let mut options = self.options.iter().map(|(option, _)| option);
            !options.any(|option| is_on_path(option, &field) || is_on_path(&field, option))
        })
    }

    /// Fills in the parts of the problem that this description leaves out from the `first` one.
    fn inherit(&mut self, first: &Described) {
        let Description { axes, buffer, uniform, push, .. } = &self.description;
        let [states_axes, states_buffers, states_blocks, states_push] =
            [("axes", axes.names()), ("buffer", buffer.names()), ("uniform", uniform.names()), ("push", push.names())]
                .map(|(table, names)| self.states(table, &names));
        let described = first;
        let Described { description: first, .. } = described;
        let Self { description: own, inherited, .. } = self;
        if !states_axes {
            own.axes = first.axes.clone();
        }
        if !states_buffers {
            inherited.push("buffer");
            own.buffer = first.buffer.clone();
            // The two files may be in different folders.
            for (_, buffer) in &mut own.buffer.0 {
                for fill in buffer.fills_mut() {
                    let Some(file) = fill.strip_prefix('@') else { continue };
                    let path = described.path(file);
                    *fill = format!("@{}", std::path::absolute(&path).unwrap_or(path).display());
                }
            }
            // Inherited buffers are named after the blocks of the first kernel. Bindings by set and binding number also
            // fit a kernel whose blocks have other names.
            if let (Some(kernel), Some(first)) = (&mut own.kernel, &first.kernel)
                && kernel.bind.is_empty()
            {
                inherited.push("kernel.bind");
                kernel.bind = first.bind.clone();
            }
            // A case's values are found by place: see `CaseKernel`.
            if !states_blocks && !described.of_case {
                inherited.push("uniform");
                own.uniform = first.uniform.clone();
            }
            if !states_push && !described.of_case {
                inherited.push("push");
                own.push = first.push.clone();
            }
        }
        // The first description decides on the reference, the work and the inputs, because its folder holds their
        // files.
        own.reference = None;
        own.work = None;
        own.inputs.clone_from(&first.inputs);
    }
}

/// Values for the specialization constants and the sub-group size of a kernel. Both may be left to its passes.
#[derive(Clone, Default)]
pub(super) struct Choice {
    pub(super) spec: OrderedMap<Formula>,
    pub(super) subgroup: Option<Formula>,
}

/// Kernel with a choice.
pub(super) struct LoadedConfiguration<'a> {
    pub(super) kernel: &'a LoadedKernel,
    pub(super) choice: Choice,
}

impl LoadedConfiguration<'_> {
    /// Names the configuration by the constants for which the description lists several values: the others distinguish
    /// nothing.
    fn named(&self, description: &Description) -> KernelConfiguration {
        let mut choice = vec![];
        for (name, value) in self.choice.spec.iter() {
            if description.spec.get(name).is_some_and(|listed| listed.values().len() > 1) {
                choice.push((name.to_string(), value.to_string()));
            }
        }
        choice.extend(self.choice.subgroup.iter().map(|size| ("subgroup".to_string(), size.to_string())));
        KernelConfiguration { kernel: self.kernel.name.clone(), choice }
    }
}

/// Description with its buffers' roles, to be resolved point by point.
pub(super) struct Resolver<'a> {
    /// Algorithms that may be references.
    catalogue: &'a Catalogue,
    pub(super) described: &'a Described,
    /// Problem that the first description defines; `None` while that one is resolved.
    first: Option<&'a ResolvedProblem>,
    /// Role of each buffer, in the description's order.
    pub(super) roles: Vec<Role>,
    /// Buffers that kernels see as images, by name.
    pub(super) images: BTreeMap<String, DeclaredImage>,
    /// Layout of each buffer that is described by members.
    pub(super) layouts: Vec<Option<StructureLayout>>,
    /// Names of specialization constants; only shapes of scratch buffers may use them.
    pub(super) constants: Vec<String>,
    /// Modules of this description's passes so far, without repetitions.
    modules: Vec<Module>,
    /// See [`ResolvedProblem::partial_groups`].
    pub(super) partial_groups: Option<bool>,
}

/// Resolves one description. If the problem has a `first` one, its buffers are used, and its modules come first in the
/// numbering. Kernels other than that of a `case` take its values.
fn resolve_one(
    catalogue: &Catalogue,
    others: &OtherKernels<'_>,
    first: Option<&ResolvedProblem>,
    case: Option<&CaseKernel<'_>>,
) -> Result<ResolvedProblem, Fault> {
    let described = others.described;
    let description = &described.description;
    if let Some(message) = missing(described)? {
        return Err(Fault::new("", message));
    }
    let mut kernels = loaded::load_kernels(described)?;
    for kernel in kernels.iter_mut().skip(usize::from(described.of_case)) {
        for pass in &mut kernel.passes {
            if let Some(case) = case {
                case.give_values(description, pass);
            }
        }
    }
    let reference = loaded::load_reference(described)?;
    let passes: Vec<&LoadedPass> = kernels.iter().chain(&reference).flat_map(|kernel| &kernel.passes).collect();
    check_fields(others, &passes)?;
    let roles = find_roles(others, &passes)?;
    let images = find_images(description, kernels.iter().chain(&reference))?;
    let layouts = find_layouts(description, &passes)?;
    let constants = passes.iter().flat_map(|pass| pass.interface.constants.iter());
    let constants = constants.map(|constant| constant.name.to_string()).collect();
    let mut configurations = vec![];
    for kernel in &kernels {
        for choice in list_choices(description, kernel)? {
            configurations.push(LoadedConfiguration { kernel, choice });
        }
    }
    let axes: Vec<String> = description.axes.names().into_iter().map(ToString::to_string).collect();
    let mut resolver = Resolver {
        catalogue,
        described,
        first,
        roles,
        images,
        layouts,
        constants,
        modules: vec![],
        partial_groups: None,
    };
    let points = resolver.resolve_points(&configurations, reference.as_ref(), &axes)?;
    if let Some(name) = &description.name {
        check_name(name).map_err(|message| Fault::new("name", message))?;
    }
    let file = described.file.iter().map(|(path, _)| path);
    Ok(ResolvedProblem {
        name: description.name.clone().unwrap_or_else(|| kernels[0].name.clone()),
        axes,
        free: axes::find_independent(&description.axes),
        modules: resolver.modules,
        configurations: configurations.iter().map(|configuration| configuration.named(description)).collect(),
        points,
        sources: file.chain(passes.iter().flat_map(|pass| &pass.compiled.files)).cloned().collect(),
        commands: description.commands(),
        captured: description.captured.clone(),
        partial_groups: resolver.partial_groups,
        // A kernel beside a captured one takes values by their places, whatever the names are.
        left_out: if case.is_none() { left_out(description, &kernels)? } else { vec![] },
        unusable: None,
    })
}

/// Returns the problem of a description that did not resolve, as far as its text tells: its cases have the names that they
/// would have, and fail with `error`. `None` if even its points are unknown, or the error is no mistake of the user's.
pub fn unusable(described: &Described, error: &Error) -> Option<ResolvedProblem> {
    let Error::Usage(reason) = error else { return None };
    let Described { description, file, .. } = described;
    let passes = description.kernel.iter().chain(&description.pass);
    let sources: Vec<String> = passes.flat_map(|pass| pass.source.values()).cloned().collect();
    // A file that is not there is a mistake in the description, and no kernel that failed.
    if sources.iter().any(|source| !described.path(source).exists()) {
        return None;
    }
    let kernels = if description.pass.is_empty() { &sources[..] } else { sources.get(..1)? };
    let name = description.name.clone().or_else(|| sources.first().map(|source| loaded::stem(source)))?;
    check_name(&name).ok()?;
    let mut choice = vec![];
    for (name, listed) in description.spec.iter().filter(|(_, listed)| listed.values().len() > 1) {
        choice.push((name.to_string(), listed.values().first()?.to_string()));
    }
    let of_kernel = |source: &String| {
        let is_pass = !description.pass.is_empty();
        let kernel = if is_pass { name.clone() } else { loaded::stem(source) };
        KernelConfiguration { kernel, choice: choice.clone() }
    };
    let configurations: Vec<_> = kernels.iter().map(of_kernel).collect();
    // The modules that would tell inputs from outputs are missing; a case has the type of its outputs.
    let typed = |(name, buffer): (&str, &DescribedBuffer)| {
        let dtype = DType::of_buffer(buffer.element.as_deref()?).ok()?;
        let role = if buffer.fill.is_some() { Role::InPlace } else { Role::Output };
        Some(ResolvedBuffer::new(name, dtype, vec![1], role))
    };
    let mut buffers: Vec<_> =
        description.buffer.iter().filter(|(_, buffer)| !buffer.scratch).filter_map(typed).collect();
    if buffers.iter().any(|buffer| buffer.role == Role::Output) {
        buffers.retain(|buffer| buffer.role == Role::Output);
    }
    let point = |values| ResolvedPoint {
        values,
        buffers: buffers.clone(),
        pass_lists: vec![Ok(PassList { dispatches: vec![], scratch: vec![] }); configurations.len()],
        ..ResolvedPoint::default()
    };
    let points: Vec<_> = axes::span_points(&description.axes).ok()?.into_iter().map(point).collect();
    let files = file.iter().map(|(path, _)| path.clone());
    Some(ResolvedProblem {
        axes: description.axes.names().into_iter().map(ToString::to_string).collect(),
        free: axes::find_independent(&description.axes),
        sources: files.chain(sources.iter().map(|source| described.path(source))).collect(),
        name,
        configurations,
        points,
        unusable: Some(in_one_line(reason)),
        ..ResolvedProblem::default()
    })
}

/// Joins the lines of a compiler's message, without those of the source, which begin with their number.
fn in_one_line(message: &str) -> String {
    let is_source = |line: &&str| {
        let rest = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() < line.len() && [" | ", " │ "].iter().any(|bar| rest.starts_with(bar))
    };
    message.lines().map(str::trim).filter(|line| !is_source(line)).collect::<Vec<_>>().join("; ")
}

impl Resolver<'_> {
    /// Resolves the points that the axes span, which must be those of the first description.
    fn resolve_points(
        &mut self,
        configurations: &[LoadedConfiguration<'_>],
        reference: Option<&LoadedKernel>,
        axes: &[String],
    ) -> Result<Vec<ResolvedPoint>, Fault> {
        let description = &self.described.description;
        let spanned = axes::span_points(&description.axes)?;
        let point_count = spanned.len();
        let kernel_count = configurations.len();
        if point_count.saturating_mul(kernel_count) > MAX_RUNS {
            let message = format!("span {point_count} points for {kernel_count} kernels and choices");
            return Err(Fault::new("axes", format!("{message}; {MAX_RUNS} are the most: list fewer values")));
        }
        if let Some(first) = self.first.filter(|first| first.axes != axes) {
            let axes = axes.join(", ");
            let first_axes = first.axes.join(", ");
            let message = format!(
                "its axes are {axes}, those of the first description {first_axes}; make them the same, or run another problem by itself"
            );
            return Err(Fault::new("", message));
        }
        let other_values = || {
            Fault::new(
                "",
                "its axes have other values than those of the first description; make them the same, or run another problem by \
                 itself",
            )
        };
        let mut points: Vec<ResolvedPoint> = vec![];
        for values in spanned {
            let scope = Values::of(axes, &values);
            if self.find_failed_condition(&scope, None)?.is_some() {
                continue;
            }
            let first_point = self.first.and_then(|first| first.points.get(points.len()));
            if self.first.is_some() && first_point.is_none_or(|point| point.values != values) {
                return Err(other_values());
            }
            points.push(self.resolve_point(configurations, reference, values, &scope, first_point)?);
        }
        if points.is_empty() {
            return Err(Fault::new("where", "rules out every combination of the axes; loosen a condition"));
        }
        let pass_lists = || points.iter().flat_map(|point| &point.pass_lists);
        if pass_lists().all(Result::is_err) {
            let reason = pass_lists().find_map(|list| list.as_ref().err()).cloned().unwrap_or_default();
            return Err(Fault::new("where", format!("rules out everything: {reason}")));
        }
        if self.first.is_some_and(|first| first.points.len() != points.len()) {
            return Err(other_values());
        }
        Ok(points)
    }

    /// Resolves one point of the axes, with the buffers of the `first` description's point if there is one.
    fn resolve_point(
        &mut self,
        configurations: &[LoadedConfiguration<'_>],
        reference: Option<&LoadedKernel>,
        values: Vec<i64>,
        axes: &Values,
        first: Option<&ResolvedPoint>,
    ) -> Result<ResolvedPoint, Fault> {
        let Described { description, folder, .. } = self.described;
        let mut buffers = self.resolve_buffers(axes)?;
        if !buffers.iter().any(|buffer| buffer.role.is_output()) {
            let message = "has no output: every one is filled; add `check` to that which kernels write";
            return Err(Fault::new("buffer", message));
        }
        if let Some(first) = first {
            check_same_buffers(&buffers, &first.buffers)?;
            let images: Vec<_> = buffers.into_iter().map(|buffer| (buffer.name, buffer.image)).collect();
            buffers = add_images(first.buffers.clone(), images)?;
        }
        let mut pass_lists = vec![];
        let mut possible = vec![];
        for configuration in configurations {
            let name = &configuration.kernel.name;
            let is_run = self.described.all_choices || !possible.contains(&name);
            let list = match self.resolve_choice(configuration, axes, &buffers) {
                Err(fault) if !is_run => Err(fault.to_string()),
                list => list?,
            };
            if list.is_ok() {
                possible.push(name);
            }
            pass_lists.push(list);
        }
        let inputs = description.inputs.as_ref().and_then(|inputs| inputs.command.as_ref());
        let inputs = inputs.map(|line| ShellCommand { line: axes.replace(line), folder: folder.clone() });
        let reference = match reference {
            None => reference::reference(self.catalogue, self.described, &buffers, axes)?,
            // Conditions are for kernels that compete, so they do not apply to a reference.
            Some(kernel) => {
                let configuration = LoadedConfiguration { kernel, choice: Choice::default() };
                let scope = self.first_round_scope(&configuration, axes)?;
                let list = self.resolve_passes(&configuration, axes, &scope, &buffers)?;
                reference::kind(description)?;
                Reference::Kernel(list)
            }
        };
        let work = evaluate_work(description, &buffers, axes)?;
        let unverified = description.reference.as_ref().is_some_and(|reference| reference.unverified);
        let mut point = ResolvedPoint { values, buffers, reference, unverified, inputs, work, pass_lists };
        if let Reference::Builtin(builtin) = &point.reference {
            // Mistakes in the roles are told where the reference computes.
            let known =
                Counterpart::new(self.catalogue, builtin, &point).map_or(0, |counterpart| counterpart.operations());
            let stated = point.work.operations;
            if description.work.as_ref().is_none_or(|work| work.flops.is_none()) {
                point.work.operations = known;
            } else if known > 0 && stated.abs_diff(known) > known / 10 {
                return Err(Fault::new(
                    "work.flops",
                    format!("is {stated}, but the reference of this size takes {known} operations; leave flops out"),
                ));
            }
        }
        Ok(point)
    }

    /// Resolves the passes of a configuration at a point, or the reason why a condition excludes it.
    fn resolve_choice(
        &mut self,
        configuration: &LoadedConfiguration<'_>,
        axes: &Values,
        buffers: &[ResolvedBuffer],
    ) -> Result<Result<PassList, String>, Fault> {
        let scope = self.first_round_scope(configuration, axes)?;
        match self.find_failed_condition(&scope, Some(configuration.kernel))? {
            Some(reason) => Ok(Err(reason)),
            None => self.resolve_passes(configuration, axes, &scope, buffers).map(Ok),
        }
    }

    /// Returns the number of a module in the whole problem, and adds it if no earlier pass of this description has it.
    pub(super) fn number_module(&mut self, module: Module) -> usize {
        let offset = self.first.map_or(0, |first| first.modules.len());
        if let Some(index) = self.modules.iter().position(|earlier| *earlier == module) {
            return offset + index;
        }
        self.modules.push(module);
        offset + self.modules.len() - 1
    }
}

/// Checks that each of a description's buffers has the name, type and shape of one in the first description.
fn check_same_buffers(buffers: &[ResolvedBuffer], first: &[ResolvedBuffer]) -> Result<(), Fault> {
    for ResolvedBuffer { name, element, shape, .. } in buffers {
        let is_same =
            |buffer: &ResolvedBuffer| buffer.name == *name && buffer.element == *element && buffer.shape == *shape;
        if !first.iter().any(is_same) {
            let message = format!("its buffer {name} of {element}{shape:?} is not one of the first description");
            return Err(Fault::new(
                "",
                format!("{message}; kernels of one problem compete, and other problems run in a command of their own"),
            ));
        }
    }
    Ok(())
}

/// Adds the images of a later description's `images` to the buffers of these names.
fn add_images(
    mut buffers: Vec<ResolvedBuffer>,
    images: Vec<(String, Option<Image>)>,
) -> Result<Vec<ResolvedBuffer>, Fault> {
    for (name, image) in images {
        let (Some(buffer), Some(image)) = (buffers.iter_mut().find(|buffer| buffer.name == name), image) else {
            continue;
        };
        let merged = buffer.image.unwrap_or(image).merge(image);
        buffer.image = Some(merged.map_err(|message| Fault::new(format!("buffer.{name}.image"), message))?);
    }
    Ok(buffers)
}

/// Checks a name for tables, ids and files.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"/\\".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME_LEN || !name.chars().all(is_plain) {
        return Err(format!(
            "'{}' is not a valid name; use 1 to {MAX_NAME_LEN} characters, no space and no slash",
            brief(name)
        ));
    }
    Ok(())
}

/// Evaluates the nominal work at a point. Unless bytes are stated, each input and output crosses the memory interface
/// once.
fn evaluate_work(description: &Description, buffers: &[ResolvedBuffer], axes: &Values) -> Result<Work, Fault> {
    let stated = description.work.clone().unwrap_or_default();
    let crossing_bytes = |buffer: &ResolvedBuffer| match buffer.role {
        Role::InPlace => 2 * buffer.bytes(),
        Role::Input | Role::Output => buffer.bytes(),
        Role::Scratch => 0,
    };
    let bytes = match &stated.bytes {
        Some(formula) => evaluate_count("work.bytes", formula, axes)?,
        None => buffers.iter().map(crossing_bytes).sum(),
    };
    let operations = match &stated.flops {
        Some(formula) => evaluate_count("work.flops", formula, axes)?,
        None => 0,
    };
    Ok(Work { operations, bytes: Bytes(bytes) })
}

/// Evaluates a count in f64, because intermediate values may exceed 64 bits or have fractions.
fn evaluate_count(field: &str, formula: &Formula, axes: &Values) -> Result<u64, Fault> {
    let fault = |message: String| Fault::new(field, message);
    let count = formula.expression().and_then(|expression| expression.number(axes)).map_err(fault)?;
    if count < 0.0 || count >= 2f64.powi(63) {
        return Err(fault(format!("is {count}; it is a count from 0 to 2^63 - 1")));
    }
    Ok(count as u64)
}

/// Checks that some pass has each specialization constant, push constant and block of the description, unless the name
/// is meant for other kernels, and that each pass has those of its own table.
fn check_fields(others: &OtherKernels<'_>, passes: &[&LoadedPass]) -> Result<(), Fault> {
    let description = &others.described.description;
    for pass in passes {
        check_repeated_constants(description, pass)?;
    }
    for unknown in unknown_names(description, passes)? {
        let others = others.passes(&unknown.field);
        let lacked = unknown_names(description, &others).unwrap_or_default();
        if others.is_empty() || lacked.iter().any(|lacked| is_on_path(&lacked.field, &unknown.field)) {
            return Err(unknown.fault(passes, None));
        }
    }
    let pointed = pointed_blocks(description, passes)?;
    for pass in passes {
        let KernelFields { spec, push, uniform, .. } = &pass.fields;
        if let Some(unknown) = find_unknown(&[*pass], &pointed, [spec.names(), push.names()], uniform).first() {
            return Err(unknown.fault(passes, Some(pass)));
        }
    }
    Ok(())
}

/// Returns the grids that drafts would have for a kernel and for the first of its description, which has a grid for both, if they
/// differ and the grid does not depend on the kernels' constants.
fn different_grids(description: &Description, [first, kernel]: [&LoadedKernel; 2]) -> Option<[String; 2]> {
    let ([first], [own]) = (&first.passes[..], &kernel.passes[..]) else { return None };
    let constants = first.interface.constants.iter().chain(own.interface.constants.iter());
    let grid = Description { axes: OrderedMap::default(), spec: OrderedMap::default(), ..description.clone() };
    if constants.map(|constant| &*constant.name).any(|name| grid.mentions(name)) {
        return None;
    }
    let draft = |pass: &LoadedPass| {
        let groups = AnalyzedPass::new(pass).grid_groups();
        format!("[{}]", groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    };
    Some([draft(own), draft(first)]).filter(|[own, first]| own != first)
}

/// Lists how each of `kernels` differs from what the description states for all.
fn left_out(description: &Description, kernels: &[LoadedKernel]) -> Result<Vec<LeftOut>, Fault> {
    let mut all = vec![];
    for kernel in kernels {
        let passes: Vec<&LoadedPass> = kernel.passes.iter().collect();
        let mut names: Vec<String> =
            unknown_names(description, &passes)?.into_iter().map(|unknown| unknown.name).collect();
        let bound = bound_buffers(description, &passes)?;
        let is_left_out = |name: &&str, buffer: &DescribedBuffer| !buffer.scratch && !bound.has(name);
        let buffers = description.buffer.iter().filter(|(name, buffer)| is_left_out(name, buffer));
        names.extend(buffers.map(|(name, _)| name.to_string()));
        let grids = different_grids(description, [&kernels[0], kernel]);
        if !names.is_empty() || grids.is_some() {
            all.push(LeftOut { kernel: kernel.name.clone(), names: distinct(names), grids });
        }
    }
    Ok(all)
}

/// Returns the blocks given by member that addresses lead to.
fn pointed_blocks<'a>(description: &'a Description, passes: &[&'a LoadedPass]) -> Result<Vec<Members<'a>>, Fault> {
    let mut pointed = vec![];
    for pass in passes {
        pointed.extend(Members::of_push_constants(description, pass).pointed_blocks()?);
        for slot in pass.interface.slots.iter() {
            let block = Members::of_slot(description, pass, slot)?;
            pointed.extend(block.map(|block| block.pointed_blocks()).transpose()?.unwrap_or_default());
        }
    }
    Ok(pointed)
}

/// Lists the names that the description's tables set and that none of `passes` has.
fn unknown_names(description: &Description, passes: &[&LoadedPass]) -> Result<Vec<UnknownName>, Fault> {
    let Description { spec, push, uniform, .. } = description;
    let pointed = pointed_blocks(description, passes)?;
    Ok(find_unknown(passes, &pointed, [spec.names(), push.names()], uniform))
}

/// Refuses a constant of the pass that the description sets both by name and by id, because one value would be ignored.
fn check_repeated_constants(description: &Description, pass: &LoadedPass) -> Result<(), Fault> {
    let mut set: Vec<(&str, u32)> = vec![];
    for name in description.spec.names() {
        let Some(constant) = pass.constant(name) else { continue };
        if let Some((earlier, _)) = set.iter().find(|(_, id)| *id == constant.id) {
            let message = format!("is the same constant as {earlier}; set only one of them");
            return Err(Fault::new(format!("spec.{name}"), message));
        }
        set.push((name, constant.id));
    }
    Ok(())
}

/// Kind of the names in `[spec]`.
const CONSTANT: &str = "specialization constant";
/// Kind of the names in `[push]`.
const PUSH_CONSTANT: &str = "push constant";

/// Specialization constant, push constant, block or member that a description sets and that no kernel has.
struct UnknownName {
    kind: &'static str,
    field: String,
    name: String,
    /// Names of this kind that the kernels have.
    known: Vec<String>,
}

impl UnknownName {
    fn new(kind: &'static str, table: &str, name: &str, known: impl Iterator<Item = String>) -> Self {
        Self { kind, field: format!("{table}.{name}"), name: name.into(), known: known.collect() }
    }

    /// Explains that no kernel has the name, which the description sets or the table of a pass, its `owner`.
    fn fault(&self, passes: &[&LoadedPass], owner: Option<&LoadedPass>) -> Fault {
        let Self { kind, name, .. } = self;
        let field = owner.map_or_else(|| self.field.clone(), |pass| pass.field(&self.field));
        if let Some(pass) = passes.iter().find(|pass| *kind == CONSTANT && pass.has_macro(name)) {
            let id = pass.interface.constants.iter().map(|constant| constant.id + 1).max().unwrap_or(0);
            let remedy = format!("in place of its #define, write layout(constant_id = {id}) const uint {name} = 1;");
            let file = pass.file();
            return Fault::new(field, format!("'{name}' is a macro of {file}, not a {kind}; to set it here, {remedy}"));
        }
        let mut known: Vec<&str> = self.known.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        known.sort_unstable();
        known.dedup();
        if !known.is_empty() {
            return Fault::new(field, error::unknown(kind, name, "", &known));
        }
        let sources = distinct(passes.iter().map(|pass| pass.file()));
        let unused = passes.iter().find(|pass| *kind == PUSH_CONSTANT && pass.has_unused(name));
        let reason = match (unused, &sources[..]) {
            (Some(pass), _) => format!("{} declares {kind}s but uses none", pass.file()),
            (None, [source]) => format!("{source} has no {kind}s"),
            (None, _) => format!("{} have no {kind}s", sources.join(", ")),
        };
        // The description may fit a different file of [kernel], whose fields have no prefix.
        let remedy = if passes[0].prefix.is_empty() { ", or describe the kernel in a file of its own" } else { "" };
        Fault::new(field, format!("{reason}; leave '{}' out{remedy}", brief(name)))
    }
}

/// Lists the specialization constants, push constants and members of blocks that none of `passes` has; the `pointed`
/// blocks are those that addresses lead to.
fn find_unknown(
    passes: &[&LoadedPass],
    pointed: &[Members<'_>],
    [spec, push]: [Vec<&str>; 2],
    uniform: &OrderedMap<OrderedMap<Formula>>,
) -> Vec<UnknownName> {
    let mut unknown = vec![];
    for name in spec {
        if passes.iter().all(|pass| pass.constant(name).is_none()) {
            let known = passes.iter().flat_map(|pass| pass.interface.constants.iter().map(loaded::constant_key));
            unknown.push(UnknownName::new(CONSTANT, "spec", name, known));
        }
    }
    let arguments = || passes.iter().flat_map(|pass| pass.interface.arguments.iter());
    for name in push {
        if name != OTHERS && !arguments().any(|member| member.is_called(name)) {
            let known = arguments().map(|member| member.name.to_string());
            unknown.push(UnknownName::new(PUSH_CONSTANT, "push", name, known));
        }
    }
    let slots = || passes.iter().flat_map(|pass| pass.interface.slots.iter());
    for (name, members) in uniform.iter() {
        let table = format!("uniform.{name}");
        let members = members.names().into_iter().filter(|member| *member != OTHERS);
        let pointed: Vec<_> = pointed.iter().filter(|block| block.name() == name).collect();
        let blocks = || slots().filter(|slot| slot.is_called(name)).flat_map(|slot| slot.blocks.iter());
        if !pointed.is_empty() {
            for member in members.filter(|member| !pointed.iter().any(|block| block.has_member(member))) {
                let known = pointed.iter().flat_map(|block| block.member_names());
                unknown.push(UnknownName::new("member", &table, member, known));
            }
        } else if !slots().any(|slot| slot.is_called(name)) && !passes.iter().any(|pass| pass.has_unused(name)) {
            let known = slots().flat_map(Slot::names).map(ToString::to_string);
            unknown.push(UnknownName::new("block", "uniform", name, known));
        } else {
            for member in members.filter(|member| !blocks().any(|block| block.member(member).is_some())) {
                let known = blocks().flat_map(|block| block.members.iter()).map(|member| member.name.to_string());
                unknown.push(UnknownName::new("member", &table, member, known));
            }
        }
    }
    unknown
}

/// Lists every combination of the values of the kernel's specialization constants and of its sub-group sizes.
fn list_choices(description: &Description, kernel: &LoadedKernel) -> Result<Vec<Choice>, Fault> {
    let mut choices = vec![Choice::default()];
    for (name, listed) in description.spec.iter() {
        if kernel.passes.iter().all(|pass| pass.constant(name).is_none()) {
            continue;
        }
        if listed.values().is_empty() {
            return Err(Fault::new(format!("spec.{name}"), "is an empty list; give it a value, or leave it out"));
        }
        choices = multiply(&choices, listed.values(), |choice, value| choice.spec.set(name, value))?;
    }
    for pass in &kernel.passes {
        let sizes = pass.fields.subgroups();
        if sizes.len() <= 1 {
            continue;
        }
        if !pass.prefix.is_empty() {
            return Err(Fault::new(pass.field("subgroup"), "is a list, which [kernel] alone may have; write one size"));
        }
        choices = multiply(&choices, sizes, |choice, size| choice.subgroup = Some(size))?;
    }
    Ok(choices)
}

/// Combines each of `choices` with each of `values`.
fn multiply(choices: &[Choice], values: &[Formula], set: impl Fn(&mut Choice, Formula)) -> Result<Vec<Choice>, Fault> {
    if choices.len().saturating_mul(values.len()) > MAX_CHOICES {
        return Err(Fault::new("spec", format!("spans more than {MAX_CHOICES} choices; list fewer values")));
    }
    let mut combined = vec![];
    for choice in choices {
        for value in values {
            let mut choice = choice.clone();
            set(&mut choice, value.clone());
            combined.push(choice);
        }
    }
    Ok(combined)
}
