//! Options, configuration and registry become a plan of cases. Every mistake of the user's that can be seen without
//! a device is reported here.

pub(crate) mod estimate;
pub(crate) mod method;
pub(crate) mod options;
pub(crate) mod request;
mod shard;

pub(crate) use shard::Shard;

use crate::algorithms::input::Input;
use crate::algorithms::{self, Algorithm, CaseSpec, Goal, Measures, StopRule, Sweeps, Variant};
use crate::basis::dtype::DType;
use crate::basis::error::Error;
use crate::basis::input_file;
use crate::basis::layout::Layout;
use crate::basis::printable::excerpt;
use crate::basis::size::{Size, Sweep};
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceKind;
use crate::host;
use crate::plan::method::CacheState;
use crate::plan::method::Clock;
use options::{Config, Published, RunTable, Selection};
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// The plan of a `bench` command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The runs, one for the command line or one for each `[[bench]]` of a configuration.
    pub runs: Vec<PlannedRun>,
    /// The `[[run]]` tables of the configuration, whose runs whoever knows kernels of the user's adds.
    pub guests: Vec<RunTable>,
}

/// Cases that share a choice of devices and a precision.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Devices as they were asked for; empty for the default device.
    pub devices: Vec<String>,
    /// The cases: for each algorithm, element type and size, the variants side by side.
    pub groups: Vec<CaseGroup>,
    /// The way each case is sampled.
    pub sampling: Sampling,
    /// Published figures to print beside the measured ones.
    pub published: Vec<Figures>,
}

/// The variants of one problem: they share inputs, buffers and oracle.
#[derive(Clone)]
pub struct CaseGroup {
    pub algorithm: &'static Algorithm,
    pub spec: CaseSpec,
    /// The variants to run on it.
    pub variants: Vec<&'static Variant>,
    /// The devices that the group is for.
    pub on: DeviceClass,
    /// Whether a device adds a variant of its own choice.
    pub pick: VariantChoice,
    /// Whether the host's cores run the group too.
    pub on_host: bool,
}

/// Why the host takes no part in a run with cold caches.
const COLD_HOST: &str = "the host's caches cannot be emptied; leave out --cache cold, or the host";

/// The name of the host's cores among devices.
pub(crate) const HOST: &str = "host";

/// The choice of a group's variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantChoice {
    /// The named variants alone.
    Named,
    /// The named variants and the best one for the device: `--variant auto`.
    Auto,
}

/// The devices that a group is for: default sizes differ between kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// Every device.
    Any,
    /// Devices that compute on the host's cores.
    Cpu,
    /// All others.
    Gpu,
}

impl DeviceClass {
    /// Whether a device of this kind is one of them.
    #[must_use]
    pub fn suits(self, kind: DeviceKind) -> bool {
        match self {
            Self::Any => true,
            Self::Cpu => kind.runs_on_host_cores(),
            Self::Gpu => !kind.runs_on_host_cores(),
        }
    }
}

/// The way a case is sampled: by whose clock, in what state of the caches, and when to stop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Half-width of the 95 % confidence interval of the median, relative to it.
    pub precision: f64,
    /// Time after which a case ends even if it is less precise.
    pub max_time: Duration,
    /// Source of the times.
    pub clock: Clock,
    /// State of the caches before a sample.
    pub cache: CacheState,
    /// Host time after which warm-up ends although its batches disagree; `None` for the default, which is longer for
    /// the first case of a device.
    pub patience: Option<Duration>,
    /// A pause before each sample, to let a device's clock fall: how tests see that it is noticed.
    pub pause: Option<Duration>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            precision: 0.01,
            max_time: Duration::from_secs(2),
            clock: Clock::default(),
            cache: CacheState::default(),
            patience: None,
            pause: None,
        }
    }
}

/// The stable name of a case: the key that joins the records of several runs. It is only ever made, never parsed: code
/// that wants to know what a case is of reads its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseId {
    pub algorithm: &'static str,
    /// The variant, or the baseline of the host's cores.
    pub variant: String,
    pub dtype: DType,
    /// The size written out in full: `1024x1024x1024`.
    pub extents: String,
    /// What is asked for.
    pub goal: Goal,
    /// The layout of the operands, where it is not the default.
    pub layout: Option<Layout>,
    /// The kind of input, where it is not the default.
    pub input: Option<Input>,
    /// The sub-group size that is required.
    pub subgroup_size: Option<u32>,
    /// The stop rule of an iterative algorithm, where it is not the default.
    pub stop: Option<StopRule>,
}

impl fmt::Display for CaseId {
    /// `matmul/subgroup/f32/1024x1024x1024`, followed by what is not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, variant, dtype, extents, goal, layout, input, subgroup_size, stop } = self;
        let mut id = format!("{algorithm}/{variant}/{dtype}/{extents}");
        if *goal == Goal::Solution {
            id = format!("{id}/solve");
        }
        if let Some(layout) = layout {
            id = format!("{id}/{layout}");
        }
        if let Some(input) = input {
            id = format!("{id}/{input}");
        }
        if let Some(size) = subgroup_size {
            id = format!("{id}/subgroup-{size}");
        }
        if let Some(StopRule { test, eps, max_rounds }) = stop {
            id = format!("{id}/{}-{eps:e}-{max_rounds}", test.name());
        }
        f.pad(&id)
    }
}

impl CaseGroup {
    /// Number of cases on one device, at most.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.variants.len() + usize::from(self.pick == VariantChoice::Auto)
    }

    /// The id of a variant's case.
    #[must_use]
    pub fn id(&self, variant: &Variant) -> CaseId {
        self.id_of(variant.name)
    }

    /// The id of the case of a variant, or a baseline, of this name.
    #[must_use]
    pub fn id_of(&self, variant: &str) -> CaseId {
        let Self { algorithm, spec, .. } = self;
        CaseId {
            algorithm: algorithm.name,
            variant: variant.into(),
            dtype: spec.dtype,
            extents: (algorithm.problem)(spec).map_or_else(|_| spec.size.to_string(), |problem| problem.extents()),
            goal: spec.goal,
            layout: spec.layout.unusual(),
            input: (spec.input != algorithm.inputs[0]).then_some(spec.input),
            subgroup_size: spec.subgroup_size,
            stop: (algorithm.iterative && spec.stop != StopRule::default()).then_some(spec.stop),
        }
    }
}

impl CaseGroup {
    /// The variants that it may have on some device.
    fn candidates(&self) -> Vec<&'static Variant> {
        match self.pick {
            VariantChoice::Named => self.variants.clone(),
            VariantChoice::Auto => self.algorithm.variants.iter().collect(),
        }
    }

    /// The id of the case of the host's cores; `None` where they take no part or have no baseline.
    pub(crate) fn host_id(&self) -> Option<String> {
        let baseline = self.on_host.then(|| host::baseline(self.algorithm, &self.spec)).flatten()?;
        Some(self.id_of(baseline.name).to_string())
    }
}

impl fmt::Debug for CaseGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variants.iter().map(|variant| self.id(variant).to_string())).finish()
    }
}

impl Plan {
    /// The plan of a `bench` command.
    ///
    /// # Errors
    /// What is wrong with the options or the configuration.
    pub(crate) fn new(typed: &Selection, config: Option<&Path>) -> Result<Self, Error> {
        let mut guests = vec![];
        let selections = match config {
            Some(path) => {
                let shown = path.display();
                let config = read_config(path)?;
                guests = config.run;
                let tables = config.bench.into_iter().map(with_own_figures).collect::<Result<Vec<_>, _>>();
                merge(typed, tables.map_err(|message| Error::Usage(format!("{shown}: {message}")))?)
            }
            None => vec![typed.clone()],
        };
        let runs = selections.iter().map(|selection| PlannedRun::new(selection, Purpose::Bench));
        let runs = runs.collect::<Result<Vec<_>, _>>().map_err(|message| {
            Error::Usage(config.map_or(message.clone(), |path| format!("{}: {message}", path.display())))
        })?;
        let method = |run: &PlannedRun| (run.sampling.clock, run.sampling.cache);
        if runs.windows(2).any(|pair| method(&pair[0]) != method(&pair[1])) {
            return Err(Error::Usage("the [[bench]] tables differ in clock or cache; a record has one method".into()));
        }
        Ok(Self { runs, guests })
    }

    /// A hash of what is to be measured and how.
    #[must_use]
    pub(crate) fn hash(&self) -> String {
        self.hashed(|run| format!("{:?}", run.devices))
    }

    /// A hash of the same on whatever devices.
    #[must_use]
    pub(crate) fn options(&self) -> String {
        self.hashed(|_| String::new())
    }

    fn hashed(&self, devices: impl Fn(&PlannedRun) -> String) -> String {
        let group = |group: &CaseGroup| {
            let CaseGroup { algorithm, spec, variants, on, pick, on_host } = group;
            let variants: Vec<_> = variants.iter().map(|variant| variant.name).collect();
            // What a kernel of the user's is, its name does not say.
            let guest = if algorithms::guests::is(algorithm) { algorithm.variants[0].source } else { "" };
            format!("{}{guest} {spec:?} {variants:?} {on:?} {pick:?} {on_host}", algorithm.name)
        };
        let run = |run: &PlannedRun| {
            let groups: Vec<_> = run.groups.iter().map(group).collect();
            format!("{} {:?} {}", devices(run), run.sampling, groups.join("; "))
        };
        let runs: Vec<_> = self.runs.iter().map(run).collect();
        fingerprint(&[runs.join("\n").as_bytes()])
    }

    /// The ids of its cases, and of those that `auto` may choose.
    #[must_use]
    pub(crate) fn ids(&self) -> Vec<String> {
        let groups = self.runs.iter().flat_map(|run| &run.groups);
        let ids = |group: &CaseGroup| {
            let variants = group.candidates().into_iter().map(|variant| group.id(variant).to_string());
            variants.chain(group.host_id()).collect::<Vec<_>>()
        };
        groups.flat_map(ids).collect()
    }

    /// This plan with the host's cores beside the devices.
    ///
    /// # Errors
    /// When the plan asks for cold caches, which the host's are not brought into.
    pub(crate) fn with_host(mut self) -> Result<Self, Error> {
        if self.runs.iter().any(|run| run.sampling.cache == CacheState::Cold) {
            return Err(Error::Usage(COLD_HOST.into()));
        }
        self.runs.iter_mut().flat_map(|run| &mut run.groups).for_each(|group| group.on_host = true);
        Ok(self)
    }

    /// This plan with only the cases of these ids; all of them where none is given.
    ///
    /// # Errors
    /// When an id is that of no case.
    pub(crate) fn only(mut self, ids: &[String]) -> Result<Self, Error> {
        if ids.is_empty() {
            return Ok(self);
        }
        let mut found = vec![];
        for run in &mut self.runs {
            for group in &mut run.groups {
                let mut variants = group.candidates();
                // A device's choice is among them, if it is wanted.
                group.pick = VariantChoice::Named;
                variants.retain(|variant| {
                    let id = group.id(variant).to_string();
                    let wanted = ids.contains(&id);
                    found.push(id);
                    wanted
                });
                group.variants = variants;
                let host = group.host_id();
                group.on_host = host.as_ref().is_some_and(|id| ids.contains(id));
                found.extend(host);
            }
            run.groups.retain(|group| !group.variants.is_empty() || group.on_host);
        }
        self.runs.retain(|run| !run.groups.is_empty());
        match ids.iter().find(|id| !found.contains(id)) {
            Some(id) => {
                Err(Error::Usage(format!("no case '{id}' among those chosen; choose its variant, dtype and size")))
            }
            None => Ok(self),
        }
    }
}

/// Nominal work up to which `verify` takes every kind of input, not only the default.
const MOST_EXTRA_WORK: u64 = 100_000_000;

/// Nominal work up to which a quick `verify` takes a problem to a software device.
const MOST_QUICK_WORK: u64 = 100_000_000;

/// The name that stands for the best variant for a device, type and size.
pub(crate) const AUTO: &str = "auto";

/// The purpose of the cases, which decides the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Timing: each algorithm's default sweep, in f32.
    Bench,
    /// Conformance: awkward sizes, every element type and kind of input.
    Verify,
}

impl PlannedRun {
    /// This run on a device of this kind, without the cases that `known` says are there already.
    #[must_use]
    pub fn anew(&self, kind: DeviceKind, mut known: impl FnMut(String) -> bool) -> Self {
        let mut run = self.clone();
        run.groups.retain(|group| group.on.suits(kind));
        for group in &mut run.groups {
            let mut variants = std::mem::take(&mut group.variants);
            variants.retain(|variant| !known(group.id(variant).to_string()));
            group.variants = variants;
            if group.pick == VariantChoice::Auto && known(group.id_of(AUTO).to_string()) {
                group.pick = VariantChoice::Named;
            }
        }
        run.groups.retain(|group| group.cases() > 0);
        run
    }

    /// This run without the problems that take a software device long: those are left to GPUs.
    #[must_use]
    pub(crate) fn quick(mut self) -> Self {
        let is_large = |group: &CaseGroup| {
            (group.algorithm.problem)(&group.spec).is_ok_and(|problem| problem.work().operations > MOST_QUICK_WORK)
        };
        self.groups.retain(|group| group.on != DeviceClass::Cpu || !is_large(group));
        self.groups.iter_mut().filter(|group| is_large(group)).for_each(|group| group.on = DeviceClass::Gpu);
        self
    }

    /// Puts groups, and the variants of each, in a random order.
    pub fn shuffle(&mut self, random: &mut impl Rng) {
        shuffle(&mut self.groups, random);
        for group in &mut self.groups {
            shuffle(&mut group.variants, random);
        }
    }

    /// The groups for a device of this kind.
    pub fn groups_on(&self, kind: DeviceKind) -> impl Iterator<Item = &CaseGroup> {
        self.groups.iter().filter(move |group| group.on.suits(kind))
    }

    /// The run of these groups, sampled on the devices and in the way that `selection` names.
    ///
    /// # Errors
    /// What is wrong with the selection.
    pub(crate) fn of(groups: Vec<CaseGroup>, selection: &Selection) -> Result<Self, String> {
        if selection.device.iter().any(|device| device == HOST) {
            return Err("kernels run on devices, not on 'host'; leave it out of --device".into());
        }
        let (devices, sampling) = (selection.device.clone(), chosen_sampling(selection)?);
        Ok(Self { devices, groups, sampling, published: vec![] })
    }

    /// The run of the cases that `selection` names.
    ///
    /// # Errors
    /// What is wrong with the selection.
    pub fn new(selection: &Selection, purpose: Purpose) -> Result<Self, String> {
        let stop = chosen_stop(selection)?;
        let axes = chosen_algorithms(selection, purpose)?;
        check_iterates(selection, &axes)?;
        let axes = axes.into_iter().map(|algorithm| Axes::new(algorithm, selection, stop, purpose));
        let axes = axes.collect::<Result<Vec<_>, _>>()?;
        let groups = axes.iter().map(Axes::groups).collect::<Result<Vec<_>, _>>()?.concat();
        let sampling = chosen_sampling(selection)?;
        if sampling.cache == CacheState::Cold && groups.iter().any(|group| group.on_host) {
            return Err(COLD_HOST.into());
        }
        let published = selection.published.iter().map(|source| Figures::new(source, &axes));
        let published = published.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { devices: selection.device.clone(), groups, published, sampling })
    }
}

/// The choices asked for of one algorithm on each axis, whose product are its cases.
#[expect(clippy::struct_excessive_bools, reason = "each says of another axis whether it was named")]
struct Axes {
    algorithm: &'static Algorithm,
    variants: Vec<&'static Variant>,
    pick: VariantChoice,
    /// Whether no variant was named: then those that lack an element type are left out of it.
    any_variant: bool,
    /// Whether no layout was named: then those other than the usual are for variants that have them.
    any_layout: bool,
    dtypes: Vec<DType>,
    layouts: Vec<Layout>,
    inputs: Vec<Input>,
    /// Whether no kind of input was named: then those other than the default are for cheap problems that make sense.
    any_input: bool,
    goals: Vec<Goal>,
    sizes: Vec<(Size, DeviceClass)>,
    subgroup_sizes: Vec<Option<u32>>,
    seed: u64,
    stop: StopRule,
    on_host: bool,
}

impl Axes {
    /// The axes of `algorithm`.
    fn new(
        algorithm: &'static Algorithm,
        selection: &Selection,
        stop: StopRule,
        purpose: Purpose,
    ) -> Result<Self, String> {
        let goals = chosen_goals(algorithm, selection, purpose)?;
        let (variants, pick) = chosen_variants(algorithm, &selection.variant)?;
        if let (Some(variant), [Goal::Result], false) = (
            variants.iter().find(|variant| matches!(variant.measures, Measures::Solution)),
            &goals[..],
            is_everything(&selection.variant),
        ) {
            return Err(format!(
                "variant '{}' of {} solves systems of equations; add --solve",
                variant.name, algorithm.name
            ));
        }
        // The choice may fall on any variant, so it has every type that one of them has.
        let all: Vec<_> = algorithm.variants.iter().collect();
        let candidates = if pick == VariantChoice::Auto { &all } else { &variants };
        Ok(Self {
            algorithm,
            dtypes: chosen_dtypes(algorithm, candidates, &goals, selection, purpose)?,
            layouts: chosen_layouts(algorithm, &selection.layout, purpose)?,
            inputs: chosen_inputs(algorithm, selection.input.as_deref(), purpose)?,
            sizes: chosen_sizes(algorithm, &selection.size, purpose)?,
            subgroup_sizes: chosen_subgroups(&selection.subgroup_size)?,
            any_variant: is_everything(&selection.variant),
            any_layout: selection.layout.is_empty(),
            any_input: purpose == Purpose::Verify && selection.input.is_none(),
            on_host: selection.device.iter().any(|device| device == HOST),
            seed: selection.seed.unwrap_or(1),
            variants,
            pick,
            goals,
            stop,
        })
    }

    /// The problems: the product of the axes except the variants, each with the devices that it is for.
    fn problems(&self) -> impl Iterator<Item = (CaseSpec, DeviceClass)> {
        let goals = self.goals.iter().flat_map(|goal| self.dtypes.iter().map(move |dtype| (*goal, *dtype)));
        let types = goals.flat_map(|kind| self.layouts.iter().map(move |layout| (kind, *layout)));
        let kinds = types.flat_map(|kind| self.inputs.iter().map(move |input| (kind, *input)));
        let sized = kinds.flat_map(|kind| self.sizes.iter().map(move |size| (kind, *size)));
        let required = sized.flat_map(|(kind, size)| self.subgroup_sizes.iter().map(move |width| (kind, size, *width)));
        required.map(|((((goal, dtype), layout), input), (size, on), subgroup_size)| {
            let Self { seed, stop, .. } = *self;
            (CaseSpec { size, dtype, goal, layout, input, seed, subgroup_size, stop, tile: None }, on)
        })
    }

    /// The variants side by side on each problem.
    fn groups(&self) -> Result<Vec<CaseGroup>, String> {
        let mut groups = vec![];
        for (spec, on) in self.problems() {
            let variants = self.variants_for(&spec);
            // What no variant has was not asked for: some have the type for another goal.
            let auto = self.pick == VariantChoice::Auto && self.asks(&spec, None);
            if auto || !variants.is_empty() {
                self.check_size(&spec)?;
                let Self { algorithm, pick, on_host, .. } = *self;
                groups.push(CaseGroup { algorithm, spec, variants, on, pick, on_host });
            }
        }
        Ok(groups)
    }

    /// The variants for a problem. Who asks for all means those that have its goal, type and layout; who names one learns
    /// that it has not.
    fn variants_for(&self, spec: &CaseSpec) -> Vec<&'static Variant> {
        let reaches = |variant: &Variant| variant.reaches(spec.goal, spec.dtype);
        let compiled = |variant: &Variant| variant.shaders(spec.dtype, spec.layout).is_some();
        let unusual = self.any_layout && spec.layout.unusual().is_some();
        let has = |variant: &&Variant| {
            self.asks(spec, Some(variant))
                && (!self.any_variant || reaches(variant))
                && (!(self.any_variant || unusual) || compiled(variant))
        };
        self.variants.iter().copied().filter(has).collect()
    }

    /// Whether the input of a problem is asked of a variant. Where no kind was named, that is the usual one, and others
    /// where they cost little; of systems of equations only what the variant promises to solve.
    fn asks(&self, spec: &CaseSpec, variant: Option<&Variant>) -> bool {
        let asked = match (&self.algorithm.solution, variant) {
            _ if !self.any_input => return true,
            (Some(solution), Some(variant)) if spec.goal == Goal::Solution => {
                (solution.inputs)(variant.name, spec.dtype)
            }
            _ => &self.inputs,
        };
        let problem = || (self.algorithm.problem)(spec);
        let is_cheap = || problem().is_ok_and(|problem| problem.work().operations <= MOST_EXTRA_WORK);
        asked.first() == Some(&spec.input) || asked.contains(&spec.input) && is_cheap()
    }

    /// That the problem has this size.
    fn check_size(&self, spec: &CaseSpec) -> Result<(), String> {
        let refuse = |reason| format!("{} cannot have size {}: {reason}", self.algorithm.name, spec.size);
        (self.algorithm.problem)(spec).map(|_| ()).map_err(refuse)
    }
}

/// Figures that a source document published, of one algorithm and element type.
#[derive(Clone)]
pub struct Figures {
    pub algorithm: &'static Algorithm,
    pub dtype: DType,
    /// Milliseconds of a variant at a size.
    milliseconds: Vec<(&'static Variant, Size, f64)>,
    /// The document that they come from.
    pub source: Published,
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:?}", self.algorithm.name, self.dtype, self.source)
    }
}

impl Figures {
    /// The figures of `source` for the cases of `axes`.
    fn new(source: &Published, axes: &[Axes]) -> Result<Self, String> {
        let place = |message: String| source.error(&message);
        let algorithm = match (&source.algorithm, axes) {
            (Some(name), _) => algorithms::find(name).map_err(place)?,
            (None, [only]) => only.algorithm,
            (None, several) => {
                let name = several.first().map_or("matmul", |axes| axes.algorithm.name);
                return Err(place(format!(
                    "the run has several algorithms; write algorithm = '{name}' beside the figures"
                )));
            }
        };
        // Figures of no type that is measured are beside nothing.
        let measured = axes.iter().find(|axes| std::ptr::eq(axes.algorithm, algorithm));
        let dtype = match (source.dtype, measured.map_or(&[][..], |axes| &axes.dtypes)) {
            (Some(dtype), _) => dtype,
            (None, [] | [_, _, ..]) => {
                return Err(place("the run has several element types; write dtype = 'f32' beside the figures".into()));
            }
            (None, [only]) => *only,
        };
        let mut milliseconds = vec![];
        for (name, sizes) in &source.milliseconds {
            let variant = algorithm.variant(name).map_err(place)?;
            for (size, time) in sizes {
                let size = size.parse::<Size>().map_err(place)?;
                if !(time.is_finite() && *time > 0.0) {
                    return Err(place(format!("{time} ms of {name} at {size} is no time; leave it out")));
                }
                milliseconds.push((variant, size, *time));
            }
        }
        Ok(Self { algorithm, dtype, milliseconds, source: source.clone() })
    }

    /// Refuses a figure of what none of `groups` measures.
    fn check_measured(&self, groups: &[CaseGroup]) -> Result<(), String> {
        let groups = groups
            .iter()
            .filter(|group| std::ptr::eq(group.algorithm, self.algorithm) && group.spec.dtype == self.dtype);
        let measured: HashSet<_> = groups
            .flat_map(|group| group.candidates().into_iter().map(|variant| (variant.name, group.spec.size.shortest())))
            .collect();
        match self.milliseconds.iter().find(|(own, at, _)| !measured.contains(&(own.name, at.shortest()))) {
            Some((own, at, _)) => Err(self.source.error(&format!(
                "the table does not measure {} {} at {at}; add it to variant, dtype and size, or leave the figure out",
                own.name, self.dtype
            ))),
            None => Ok(()),
        }
    }

    /// The published milliseconds of a variant of the algorithm, by name, at a size.
    #[must_use]
    pub fn of(&self, variant: &str, size: Size) -> Option<f64> {
        let size = size.shortest();
        let found = self.milliseconds.iter().find(|(own, at, _)| own.name == variant && at.shortest() == size);
        found.map(|(.., time)| *time)
    }
}

fn chosen_sampling(selection: &Selection) -> Result<Sampling, String> {
    let default = Sampling::default();
    let clock = selection.clock.as_deref().map_or(Ok(default.clock), options::clock)?;
    let cache = selection.cache.as_deref().map_or(Ok(default.cache), options::cache)?;
    if (clock, cache) == (Clock::Host, CacheState::Cold) {
        return Err(
            "--clock host times whole submissions, and with --cache cold these empty the caches; leave out one".into(),
        );
    }
    Ok(Sampling {
        precision: selection.precision.as_deref().map_or(Ok(default.precision), options::precision)?,
        max_time: selection.max_time.as_deref().map_or(Ok(default.max_time), options::duration)?,
        clock,
        cache,
        patience: None,
        pause: selection.pause.as_deref().map(options::duration).transpose()?,
    })
}

/// The tables of a configuration under the options that were typed. Those that say how eigen stops are for the tables that
/// measure it, where there are any.
fn merge(typed: &Selection, tables: Vec<Selection>) -> Vec<Selection> {
    let iterates =
        |names: &[String]| names.iter().any(|name| algorithms::find(name).is_ok_and(|algorithm| algorithm.iterative));
    let of_others = Selection { stop: None, eps: None, max_rounds: None, ..typed.clone() };
    let split = typed.algorithm.is_empty() && tables.iter().any(|table| iterates(&table.algorithm));
    let typed_for = |table: &Selection| if split && !iterates(&table.algorithm) { &of_others } else { typed };
    tables.into_iter().map(|table| typed_for(&table).clone().or(table)).collect()
}

/// A table of a configuration whose published figures name the algorithm and the type that it measures by itself:
/// options that are typed measure something else, and the figures stay what they are.
///
/// # Errors
/// When there is a figure of what the table does not measure: nobody would ever see it.
fn with_own_figures(mut table: Selection) -> Result<Selection, String> {
    if let Ok(run) = PlannedRun::new(&table, Purpose::Bench) {
        for figures in &run.published {
            figures.check_measured(&run.groups)?;
        }
        for (source, figures) in table.published.iter_mut().zip(run.published) {
            source.algorithm = Some(figures.algorithm.name.into());
            source.dtype = Some(figures.dtype);
        }
    }
    Ok(table)
}

fn read_config(path: &Path) -> Result<Config, Error> {
    let shown = path.display();
    let text = input_file::read_text(path).map_err(|e| {
        Error::Usage(format!("cannot read configuration '{shown}': {e}; examples are in benches-config/"))
    })?;
    let mut config: Config = toml::from_str(&text)
        .map_err(|e| Error::Usage(format!("configuration '{shown}' is not valid:\n{}", excerpt(&e.to_string()))))?;
    // What two tables name is measured once.
    let mut seen = HashSet::new();
    config.bench.retain(|table| seen.insert(format!("{table:?}")));
    if config.bench.is_empty() && config.run.is_empty() {
        return Err(Error::Usage(format!("configuration '{shown}' measures nothing; add a [[bench]] table")));
    }
    Ok(config)
}

fn chosen_algorithms(selection: &Selection, purpose: Purpose) -> Result<Vec<&'static Algorithm>, String> {
    if selection.algorithm.is_empty() {
        return match purpose {
            Purpose::Verify => Ok(algorithms::ALGORITHMS.to_vec()),
            Purpose::Bench => {
                let names: Vec<_> = algorithms::ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
                Err(format!("no algorithm given; name one of: {}", names.join(", ")))
            }
        };
    }
    unique(selection.algorithm.iter().map(|name| algorithms::find(name)), |a, b| std::ptr::eq(*a, *b))
}

/// Whether these names stand for all variants.
fn is_everything(names: &[String]) -> bool {
    names.is_empty() || names == ["all"]
}

fn chosen_variants(
    algorithm: &'static Algorithm,
    names: &[String],
) -> Result<(Vec<&'static Variant>, VariantChoice), String> {
    if is_everything(names) {
        return Ok((algorithm.variants.iter().collect(), VariantChoice::Named));
    }
    if names.iter().any(|name| name == "all") {
        return Err(format!("variants '{}' mix 'all' with names; write either", names.join(",")));
    }
    let pick = if names.iter().any(|name| name == AUTO) { VariantChoice::Auto } else { VariantChoice::Named };
    if pick == VariantChoice::Auto && algorithm.candidates.is_none() {
        let known: Vec<_> = algorithm.variants.iter().map(|variant| variant.name).collect();
        return Err(format!(
            "variant 'auto' has no rule for {}; name one of: {}, all",
            algorithm.name,
            known.join(", ")
        ));
    }
    let named = names.iter().filter(|name| *name != AUTO).map(|name| algorithm.variant(name));
    Ok((unique(named, |a, b| std::ptr::eq(*a, *b))?, pick))
}

fn chosen_dtypes(
    algorithm: &Algorithm,
    variants: &[&Variant],
    goals: &[Goal],
    selection: &Selection,
    purpose: Purpose,
) -> Result<Vec<DType>, String> {
    let names = &selection.dtype;
    let reached =
        |dtype: &DType| goals.iter().any(|goal| variants.iter().any(|variant| variant.reaches(*goal, *dtype)));
    let supported: Vec<_> = DType::ALL.into_iter().filter(reached).collect();
    if names.is_empty() {
        return Ok(match purpose {
            Purpose::Bench => supported[..1].to_vec(),
            Purpose::Verify => supported,
        });
    }
    let dtypes = unique(names.iter().map(|name| name.parse::<DType>()), |a, b| a == b)?;
    match dtypes.iter().find(|dtype| !supported.contains(dtype)) {
        Some(dtype) => {
            let known: Vec<_> = supported.iter().map(|dtype| dtype.name()).collect();
            Err(format!("no chosen variant of {} has dtype {dtype}; available: {}", algorithm.name, known.join(", ")))
        }
        None => Ok(dtypes),
    }
}

fn chosen_goals(algorithm: &Algorithm, selection: &Selection, purpose: Purpose) -> Result<Vec<Goal>, String> {
    match (selection.solve, purpose) {
        (true, _) if algorithm.solution.is_none() => Err(format!(
            "{} has no systems of equations to solve; leave out --solve, which is for: {}",
            algorithm.name,
            solvers().join(", ")
        )),
        (true, _) => Ok(vec![Goal::Solution]),
        (false, Purpose::Verify) => Ok(algorithm.goals().to_vec()),
        (false, Purpose::Bench) => Ok(vec![Goal::Result]),
    }
}

/// The names of the algorithms that go on to a solution.
fn solvers() -> Vec<&'static str> {
    algorithms::ALGORITHMS.iter().filter(|own| own.solution.is_some()).map(|own| own.name).collect()
}

fn chosen_layouts(algorithm: &Algorithm, names: &[String], purpose: Purpose) -> Result<Vec<Layout>, String> {
    if names.is_empty() {
        return Ok(match purpose {
            Purpose::Bench => algorithm.layouts[..1].to_vec(),
            Purpose::Verify => algorithm.layouts.to_vec(),
        });
    }
    let layouts = unique(names.iter().map(|name| name.parse::<Layout>()), |a, b| a == b)?;
    match layouts.iter().find(|layout| !algorithm.layouts.contains(layout)) {
        Some(layout) => {
            let known: Vec<_> = algorithm.layouts.iter().map(|layout| layout.name()).collect();
            Err(format!("{} has no layout {layout}; available: {}", algorithm.name, known.join(", ")))
        }
        None => Ok(layouts),
    }
}

fn chosen_inputs(algorithm: &Algorithm, name: Option<&str>, purpose: Purpose) -> Result<Vec<Input>, String> {
    let Some(name) = name else {
        return Ok(match purpose {
            Purpose::Bench => algorithm.inputs[..1].to_vec(),
            // The others end in the failure that they are there to show.
            Purpose::Verify => algorithm.inputs.iter().copied().filter(|input| input.has_answer()).collect(),
        });
    };
    let input: Input = name.parse()?;
    if !algorithm.inputs.contains(&input) {
        let known: Vec<_> = algorithm.inputs.iter().map(|input| input.name()).collect();
        return Err(format!("{} has no input '{input}'; available: {}", algorithm.name, known.join(", ")));
    }
    Ok(vec![input])
}

fn chosen_subgroups(texts: &[String]) -> Result<Vec<Option<u32>>, String> {
    if texts.is_empty() {
        return Ok(vec![None]);
    }
    let size = |text: &String| match text.parse::<u32>() {
        Ok(size) if size.is_power_of_two() && size <= 128 => Ok(Some(size)),
        _ => Err(format!("sub-group size '{text}' is no power of two up to 128; `gpukern devices` tells the range")),
    };
    unique(texts.iter().map(size), |a, b| a == b)
}

/// Refuses options of iterative algorithms where none was chosen.
fn check_iterates(selection: &Selection, chosen: &[&Algorithm]) -> Result<(), String> {
    let Selection { stop, eps, max_rounds, .. } = selection;
    let given = [("stop", stop.is_some()), ("eps", eps.is_some()), ("max-rounds", max_rounds.is_some())];
    match given.into_iter().find(|(_, given)| *given) {
        Some((name, _)) if !chosen.iter().any(|algorithm| algorithm.iterative) => {
            let names: Vec<_> = chosen.iter().map(|algorithm| algorithm.name).collect();
            Err(format!("--{name} says how eigen stops; {} does not iterate: leave it out", names.join(", ")))
        }
        _ => Ok(()),
    }
}

fn chosen_stop(selection: &Selection) -> Result<StopRule, String> {
    let default = StopRule::default();
    let rule = StopRule {
        test: selection.stop.as_deref().map_or(Ok(default.test), str::parse)?,
        eps: selection.eps.unwrap_or(default.eps),
        max_rounds: selection.max_rounds.unwrap_or(default.max_rounds),
    };
    if !(rule.eps.is_finite() && rule.eps > 0.0) {
        return Err(format!("eps {} is not a positive number; write --eps 1e-4", rule.eps));
    }
    if rule.eps >= 1.0 {
        return Err(format!(
            "eps {:e} asks for no precision: it may be met before the first round; write --eps 1e-4",
            rule.eps
        ));
    }
    if rule.max_rounds == 0 {
        return Err("max-rounds 0 leaves no round to run; the smallest is 1".into());
    }
    Ok(rule)
}

fn chosen_sizes(algorithm: &Algorithm, texts: &[String], purpose: Purpose) -> Result<Vec<(Size, DeviceClass)>, String> {
    let sizes = |text: &str, on| -> Result<Vec<_>, String> {
        Ok(text.parse::<Sweep>()?.0.into_iter().map(|size| (size, on)).collect())
    };
    let Sweeps { gpu, cpu } = match purpose {
        _ if !texts.is_empty() => return sizes(&texts.join(","), DeviceClass::Any),
        Purpose::Verify => algorithm.verify_size,
        Purpose::Bench => algorithm.default_size,
    };
    if gpu == cpu {
        sizes(gpu, DeviceClass::Any)
    } else {
        Ok([sizes(gpu, DeviceClass::Gpu)?, sizes(cpu, DeviceClass::Cpu)?].concat())
    }
}

/// The items, each once.
fn unique<T>(items: impl Iterator<Item = Result<T, String>>, same: impl Fn(&T, &T) -> bool) -> Result<Vec<T>, String> {
    let mut kept: Vec<T> = vec![];
    for item in items {
        let item = item?;
        if !kept.iter().any(|other| same(other, &item)) {
            kept.push(item);
        }
    }
    Ok(kept)
}

/// Puts `items` in a random order (Fisher and Yates); the slight preference of the remainder is of no account.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(variant: &str, size: &str) -> Selection {
        Selection {
            algorithm: vec!["matmul".into()],
            variant: vec![variant.into()],
            size: vec![size.into()],
            ..Selection::default()
        }
    }

    fn error(selection: &Selection) -> String {
        PlannedRun::new(selection, Purpose::Bench).expect_err("a mistake").clone()
    }

    #[test]
    fn all_variants_are_those_that_have_the_type_and_a_named_one_is_kept() {
        let of = |variant: &[&str]| {
            let variant = variant.iter().map(ToString::to_string).collect();
            let selection = Selection {
                algorithm: vec!["matmul".into()],
                dtype: vec!["f32".into()],
                variant,
                ..Selection::default()
            };
            let plan = PlannedRun::new(&selection, Purpose::Bench).expect("a plan");
            plan.groups[0].variants.iter().map(|variant| variant.name).collect::<Vec<_>>()
        };
        for all in [of(&[]), of(&["all"])] {
            assert!(all.contains(&"tiled") && !all.contains(&"coopmat"), "{all:?}");
        }
        assert_eq!(of(&["coopmat", "naive"]), ["coopmat", "naive"]);
    }

    #[test]
    fn published_figures_are_of_what_their_table_measures_whatever_is_typed() {
        let config: Config = toml::from_str(
            "[[bench]]\nalgorithm = 'matmul'\nvariant = 'naive'\nsize = 8\n[[bench.published]]\nsource = 'a post'\n\
             device = 'a card'\ncontains = 'kernel'\nmilliseconds = { naive = { 8 = 1.5 } }",
        )
        .expect("a configuration");
        let [table]: [Selection; 1] = config.bench.try_into().expect("one table");
        let types = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        for typed in [
            Selection::default(),
            Selection { algorithm: vec!["lu".into()], ..Selection::default() },
            Selection { dtype: types(&["f64"]), ..Selection::default() },
            Selection { dtype: types(&["f32", "f64"]), ..Selection::default() },
        ] {
            let run = PlannedRun::new(&typed.or(with_own_figures(table.clone()).expect("its own")), Purpose::Bench)
                .expect("a plan");
            assert_eq!((run.published[0].algorithm.name, run.published[0].dtype), ("matmul", DType::F32));
        }
    }

    #[test]
    fn case_ids_are_stable_text() {
        let plan = PlannedRun::new(&selection("v2", "1000x70x130"), Purpose::Bench).expect("a plan");
        let group = &plan.groups[0];
        assert_eq!(group.id(group.variants[0]).to_string(), "matmul/subgroup/f32/1000x70x130");
        let signed = Selection { input: Some("signed".into()), ..selection("v0", "8") };
        let plan = PlannedRun::new(&signed, Purpose::Bench).expect("a plan");
        assert_eq!(plan.groups[0].id(plan.groups[0].variants[0]).to_string(), "matmul/naive/f32/8x8x8/signed");
    }

    #[test]
    fn a_solution_is_another_case_than_its_factors() {
        let lu = |variant: &str, solve| {
            let selection = Selection { algorithm: vec!["lu".into()], solve, ..selection(variant, "8") };
            PlannedRun::new(&selection, Purpose::Bench)
        };
        let ids = |variant, solve| format!("{:?}", lu(variant, solve).expect("a plan").groups);
        assert_eq!(ids("blocked", false), "[[\"lu/blocked/f32/8x8\"]]");
        assert_eq!(ids("blocked", true), "[[\"lu/blocked/f32/8x8/solve\"]]");
        // The one variant that has no factors is for solutions alone, and in f64.
        assert_eq!(ids("refined", true), "[[\"lu/refined/f64/8x8/solve\"]]");
        assert!(ids("all", true).contains("lu/naive/f32/8x8/solve") && !ids("all", false).contains("refined"));
        let error = lu("refined", false).expect_err("no factors");
        assert_eq!(error, "variant 'refined' of lu solves systems of equations; add --solve");
        let matmul = PlannedRun::new(&Selection { solve: true, ..selection("naive", "8") }, Purpose::Bench);
        let expected = "matmul has no systems of equations to solve; leave out --solve, which is for: lu";
        assert_eq!(matmul.expect_err("no systems"), expected);
    }

    #[test]
    fn verify_takes_factors_and_solutions_unless_told_to_take_solutions_alone() {
        let goals = |solve| {
            let selection = Selection {
                algorithm: vec!["lu".into()],
                solve,
                input: Some("uniform".into()),
                ..selection("all", "9")
            };
            let groups = PlannedRun::new(&selection, Purpose::Verify).expect("a plan").groups;
            let goal = |group: &CaseGroup| (group.spec.goal, group.spec.dtype, group.variants.len());
            unique(groups.iter().map(|group| Ok(goal(group))), |a, b| a == b).expect("no mistake")
        };
        let lu = algorithms::find("lu").expect("it is in the registry");
        let plain = lu.variants.iter().filter(|variant| variant.reaches(Goal::Result, DType::F32)).count();
        let solutions = [(Goal::Solution, DType::F32, plain), (Goal::Solution, DType::F64, 1)];
        assert_eq!(goals(true), solutions);
        assert_eq!(goals(false), [&[(Goal::Result, DType::F32, plain)][..], &solutions].concat());
    }

    #[test]
    fn a_plan_can_be_cut_down_to_cases_by_id() {
        let plan =
            || Plan::new(&Selection { variant: vec!["naive".into(), "local".into()], ..selection("", "8,16") }, None);
        let plan = |ids: &[&str]| plan()?.only(&ids.iter().map(ToString::to_string).collect::<Vec<_>>());
        let ids = |plan: &Plan| format!("{:?}", plan.runs.iter().map(|run| &run.groups).collect::<Vec<_>>());
        let cut = plan(&["matmul/local/f32/16x16x16"]).expect("it is there");
        assert_eq!(cut.ids(), ["matmul/local/f32/16x16x16"]);
        assert_eq!(ids(&cut), "[[[\"matmul/local/f32/16x16x16\"]]]");
        assert_eq!(plan(&[]).expect("all").runs[0].groups.len(), 2);
        let both = Plan::new(&selection("local", "8,16"), None).expect("a plan").with_host().expect("hot caches");
        assert_eq!(both.ids().len(), 4);
        let host = both.only(&["matmul/faer/f32/16x16x16".into()]).expect("it is there");
        assert_eq!(host.ids(), ["matmul/faer/f32/16x16x16"]);
        assert_eq!(host.runs[0].groups.len(), 1);
        let error = plan(&["matmul/local/f32/9x9x9"]).expect_err("it is not").to_string();
        assert!(error.contains("no case 'matmul/local/f32/9x9x9'"), "{error}");
    }

    #[test]
    fn whatever_auto_may_choose_can_be_asked_for_by_id() {
        let auto = Plan::new(&selection("auto", "8"), None).expect("a plan");
        let id = "matmul/texel/f32/8x8x8".to_string();
        assert!(auto.ids().contains(&id));
        let cut = auto.only(std::slice::from_ref(&id)).expect("it is a candidate");
        // Nothing beside it: a round of one case measures one.
        assert_eq!((cut.ids(), cut.runs[0].groups[0].cases()), (vec![id], 1));
    }

    #[test]
    fn a_case_that_is_known_is_left_out_of_a_run_and_so_is_what_is_for_other_devices() {
        let run = PlannedRun::new(&selection("naive", "8,8x8x8,16"), Purpose::Bench).expect("a plan");
        let mut known = std::collections::BTreeSet::new();
        let mut anew = |run: &PlannedRun| run.anew(DeviceKind::Cpu, |id| !known.insert(id)).groups.len();
        assert_eq!((anew(&run), anew(&run)), (2, 0));
        let both =
            PlannedRun::new(&Selection { size: vec![], ..selection("naive", "") }, Purpose::Bench).expect("a plan");
        assert_eq!(anew(&both), 2, "the sizes of software devices");
    }

    #[test]
    fn a_variant_named_twice_is_measured_once() {
        let twice = Selection { variant: vec!["naive".into(), "v0".into()], ..selection("", "64") };
        assert_eq!(PlannedRun::new(&twice, Purpose::Bench).expect("a plan").groups[0].variants.len(), 1);
    }

    #[test]
    fn verify_covers_every_dtype_and_input_at_awkward_sizes() {
        let plan = PlannedRun::new(&Selection::default(), Purpose::Verify).expect("a plan");
        for algorithm in algorithms::ALGORITHMS {
            let groups = || plan.groups.iter().filter(|group| std::ptr::eq(group.algorithm, *algorithm));
            for (goal, dtype) in
                algorithm.goals().iter().flat_map(|goal| algorithm.dtypes(*goal).map(|dtype| (*goal, dtype)))
            {
                // `signed` is there to be refused where an algorithm needs a positive matrix.
                for input in algorithm
                    .inputs
                    .iter()
                    .filter(|input| input.has_answer() && !(algorithm.iterative && **input == Input::Signed))
                    .filter(|input| goal == Goal::Result || !is_unsolvable(**input, dtype))
                {
                    let of = |spec: &CaseSpec| (spec.goal, spec.dtype, spec.input);
                    assert!(groups().any(|group| of(&group.spec) == (goal, dtype, *input)));
                }
            }
        }
    }

    /// Whether no variant of lu promises to solve systems with such a matrix.
    fn is_unsolvable(input: Input, dtype: DType) -> bool {
        input == Input::Wilkinson || (input, dtype) == (Input::Hilbert, DType::F64)
    }

    /// The inputs of the systems of equations that a run asks of a variant at a size.
    fn systems(variant: &str, size: &str, input: Option<&str>, purpose: Purpose) -> Vec<Input> {
        let input = input.map(str::to_owned);
        let selection = Selection {
            algorithm: vec!["lu".into()],
            solve: true,
            input,
            dtype: vec!["f32".into()],
            ..selection(variant, size)
        };
        let plan = PlannedRun::new(&selection, purpose).expect("a plan");
        plan.groups.iter().filter(|group| !group.variants.is_empty()).map(|group| group.spec.input).collect()
    }

    #[test]
    fn without_pivoting_a_conformance_run_asks_for_solutions_where_elimination_is_stable() {
        let (dominant, of) = (Input::DiagonallyDominant, |variant, size| systems(variant, size, None, Purpose::Verify));
        assert_eq!(of("blocked", "3000"), [dominant]);
        assert_eq!(of("blocked", "100"), [dominant, Input::Hilbert]);
        assert_eq!(of("blocked-pivot", "3000"), [Input::Uniform]);
        assert_eq!(of("blocked-pivot", "100"), [Input::Uniform, dominant, Input::Hilbert, Input::IllScaled]);
        // Who names an input means it, and so does who measures.
        assert_eq!(systems("blocked", "3000", Some("uniform"), Purpose::Verify), [Input::Uniform]);
        assert_eq!(systems("blocked", "3000", None, Purpose::Bench), [Input::Uniform]);
    }

    #[test]
    fn mistakes_are_named_before_any_device_is_opened() {
        let unknown = "unknown variant 'tilde' for matmul; did you mean 'tiled'?";
        assert!(error(&selection("tilde", "64")).starts_with(unknown));
        assert!(error(&selection("naive", "0")).contains("is zero"));
        assert!(error(&selection("naive", "100000")).contains("matmul cannot have size 100000: A would have"));
        assert!(error(&Selection::default()).contains("no algorithm given"));
        let auto = Selection { algorithm: vec!["lu".into()], ..selection("auto", "64") };
        assert!(error(&auto).starts_with("variant 'auto' has no rule for lu; name one of:"));
        let mixed = Selection { variant: vec!["all".into(), "naive".into()], ..selection("", "64") };
        assert!(error(&mixed).contains("mix 'all' with names"));
        let quick = Selection { max_time: Some("0s".into()), ..selection("naive", "64") };
        assert!(error(&quick).contains("time '0s' is not positive"));
        let cold = Selection { cache: Some("cold".into()), ..selection("naive", "64") };
        let timed = Selection { clock: Some("host".into()), ..cold.clone() };
        assert!(error(&timed).contains("leave out one"));
        assert!(error(&Selection { device: vec![HOST.into()], ..cold.clone() }).contains("leave out --cache cold"));
        assert!(Plan::new(&cold, None).expect("a plan").with_host().is_err());
    }
}
