//! Builds a plan of cases from options, and reports every mistake that can be found without a device.

pub mod axes;
mod cases;
mod choose;
pub mod estimate;
pub mod fixture;
pub mod options;
pub mod request;
mod shard;

pub use cases::CaseId;
pub use choose::sizes_in;
pub use shard::Shard;

use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{AUTO, Algorithm, CaseSpec, Problem, Variant};
use crate::basis::alike::distinct;
use crate::basis::error::{Error, line_number, nearest, toml_mistake};
use crate::basis::handle::Handle;
use crate::basis::input_file;
use crate::basis::pattern::{abbreviates, is_pattern, matches};
use crate::basis::printable::{Shown, brief, shell_word};
use crate::case::input::Input;
use crate::case::method::{CacheState, Clock};
use crate::case::{CaseOptions, StopRule};
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceKind;
use crate::device::selector;
use axes::AXES;
use cases::Cases;
use choose::Variants;
use options::{Config, RunTable, Selection};
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Plan of a `bench` command.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One section for the command line, or one per `[[bench]]` of a configuration.
    pub sections: Vec<PlanSection>,
    /// `[[run]]` tables of the configuration. Commands add their sections, because only they can compile kernels.
    pub run_tables: Vec<RunTable>,
}

/// Cases that share devices and sampling.
#[derive(Clone, Debug)]
pub struct PlanSection {
    /// Requested devices; empty for the default one.
    pub devices: Vec<String>,
    /// Cases, grouped by problem: the variants of a group take turns.
    pub groups: Vec<CaseGroup>,
    /// Options of sampling each case.
    pub sampling: Sampling,
}

/// Variants of one problem, which share inputs, buffers and oracle.
#[derive(Clone)]
pub struct CaseGroup {
    pub algorithm: Handle<Algorithm>,
    pub spec: CaseSpec,
    /// Variants to run.
    pub variants: Vec<Variant>,
    /// Devices that the group is for.
    pub on: DeviceClass,
    /// Whether the best variant for the device is added: `--variant auto`.
    pub auto: bool,
    /// Whether the host baseline is measured too.
    pub on_host: bool,
    /// Number that groups of a section share whose cases take turns as those of one group do.
    pub turns: Option<usize>,
}

/// Error for host baselines in a run with cold caches.
const COLD_HOST: &str = "the host's caches cannot be emptied; leave out --cache cold, or the host";

/// Name of the host among devices.
pub const HOST: &str = "host";

/// Class of devices that a group is for: default sizes depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// All devices.
    Any,
    /// Devices that compute on the CPU.
    Cpu,
    /// All other devices.
    Gpu,
}

impl DeviceClass {
    /// Whether the class includes this kind of device.
    pub fn suits(self, kind: DeviceKind) -> bool {
        match self {
            Self::Any => true,
            Self::Cpu => kind.runs_on_host_cores(),
            Self::Gpu => !kind.runs_on_host_cores(),
        }
    }
}

/// Options of sampling: clock, state of the caches, and when to stop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Relative distance from the median to the farther end of its 95 % confidence interval at which sampling ends.
    pub precision: f64,
    /// Time after which a case ends at any precision.
    pub max_time: Duration,
    /// Source of the times.
    pub clock: Clock,
    /// State of the caches before a sample.
    pub cache: CacheState,
    /// Longest host time of the warm-up; `None` for the default, which is longer for the first case of a device.
    pub patience: Option<Duration>,
    /// Pause before each sample, with which tests lower a device's clock.
    pub pause: Option<Duration>,
    /// Whether to measure each case's energy after its samples.
    pub energy: bool,
}

impl Sampling {
    /// Most samples of a case, whatever its precision.
    pub const MAX_SAMPLES: usize = 1000;
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            precision: 0.01,
            max_time: Duration::from_secs(1),
            clock: Clock::default(),
            cache: CacheState::default(),
            patience: None,
            pause: None,
            energy: false,
        }
    }
}

impl CaseGroup {
    /// Returns a group of named variants for all devices, without the host.
    pub fn new(algorithm: Handle<Algorithm>, spec: CaseSpec, variants: Vec<Variant>) -> Self {
        Self { algorithm, spec, variants, on: DeviceClass::Any, auto: false, on_host: false, turns: None }
    }

    /// Returns the problem.
    ///
    /// # Panics
    /// When the size is invalid, which plans refuse.
    pub fn problem(&self) -> Box<dyn Problem> {
        (self.algorithm.problem)(&self.spec).expect("sizes were checked when the plan was made")
    }

    /// Returns the largest number of cases on one device.
    pub fn cases(&self) -> usize {
        self.variants.len() + usize::from(self.auto)
    }

    /// Returns the id of a variant's case.
    pub fn id(&self, variant: &Variant) -> CaseId {
        self.id_of(&variant.name)
    }

    /// Returns the id of the case of the variant or baseline with this name. If the size is none that the algorithm can
    /// have, the id repeats it as stated in place of the problem's extents.
    pub fn id_of(&self, variant: &str) -> CaseId {
        let Self { algorithm, spec, .. } = self;
        let extents = (algorithm.problem)(spec).map_or_else(|_| spec.size.to_string(), |problem| problem.extents());
        CaseId { algorithm: algorithm.clone(), variant: variant.into(), extents, options: spec.options }
    }

    /// Formats the group for the plan's hash, with the stop rule of its section.
    fn hash_text(&self, stop: StopRule) -> String {
        let Self { algorithm, spec, variants, on, auto, on_host, turns: _ } = self;
        let auto = if *auto { "Auto" } else { "Named" };
        let variants: Vec<_> = variants.iter().map(|variant| &variant.name).collect();
        let source = algorithm.fingerprint.as_deref().unwrap_or_default();
        let spec = hash_text(algorithm, spec, stop);
        format!("{}{source} {spec} {variants:?} {on:?} {auto} {on_host}", algorithm.name)
    }

    /// Returns the variants that the group may have on some device.
    fn candidates(&self) -> &[Variant] {
        if self.auto { &self.algorithm.variants } else { &self.variants }
    }

    /// Returns the id of the host baseline's case, if there is one.
    pub fn host_id(&self) -> Option<String> {
        let baseline = self.on_host.then(|| self.algorithm.baseline_of(&self.spec)).flatten()?;
        Some(self.id_of(baseline.name).to_string())
    }
}

impl fmt::Debug for CaseGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variants.iter().map(|variant| self.id(variant).to_string())).finish()
    }
}

impl Plan {
    /// Builds the plan of a `bench` command from its options and a configuration with the user's defaults.
    ///
    /// # Errors
    /// When the options or the configuration are wrong.
    pub fn new(catalogue: &Catalogue, typed: &Selection, config: Option<(&Path, &Selection)>) -> Result<Self, Error> {
        let mut run_tables = vec![];
        let mut selections = vec![typed.clone()];
        if let Some((path, defaults)) = config {
            let (tables, runs) = read_config(path)?;
            run_tables = runs;
            selections = merge(catalogue, typed, tables);
            selections = selections.into_iter().map(|table| table.or(defaults.clone())).collect();
        }
        let mut sections = vec![];
        for selection in &selections {
            let section = PlanSection::new(catalogue, selection, Purpose::Bench);
            sections.push(section.map_err(|message| match config {
                Some((path, _)) => Error::Usage(format!("{}: {message}", path.shown())),
                None => Error::Usage(message),
            })?);
        }
        let method = |section: &PlanSection| (section.sampling.clock, section.sampling.cache);
        if sections.windows(2).any(|pair| method(&pair[0]) != method(&pair[1])) {
            return Err(Error::Usage("the [[bench]] tables differ in clock or cache; a record has one method".into()));
        }
        Ok(Self { sections, run_tables })
    }

    /// Returns the caches before each run, which all sections share.
    pub fn cache(&self) -> CacheState {
        self.sections.first().map_or(CacheState::Hot, |section| section.sampling.cache)
    }

    /// Returns a hash of the cases, devices and sampling.
    pub fn hash(&self) -> String {
        self.hash_with(|section| format!("{:?}", section.devices))
    }

    /// Returns a hash of the cases and sampling, independent of devices.
    pub fn options(&self) -> String {
        self.hash_with(|_| String::new())
    }

    fn hash_with(&self, devices: impl Fn(&PlanSection) -> String) -> String {
        let mut texts = vec![];
        for section in &self.sections {
            let stop = section.groups.iter().find_map(|group| group.spec.stop).unwrap_or_default();
            let groups: Vec<_> = section.groups.iter().map(|group| group.hash_text(stop)).collect();
            texts.push(format!("{} {:?} {}", devices(section), section.sampling, groups.join("; ")));
        }
        fingerprint(&[texts.join("\n").as_bytes()])
    }

    /// Returns the ids of all cases, including those that `auto` may choose.
    pub fn ids(&self) -> Vec<String> {
        let groups = self.sections.iter().flat_map(|section| &section.groups);
        let ids = |group: &CaseGroup| {
            let variants = group.candidates().iter().map(|variant| group.id(variant).to_string());
            variants.chain(group.host_id()).collect::<Vec<_>>()
        };
        groups.flat_map(ids).collect()
    }

    /// Adds host baselines.
    ///
    /// # Errors
    /// When the plan asks for cold caches, which host baselines do not support.
    pub fn with_host(mut self) -> Result<Self, Error> {
        if self.sections.iter().any(|section| section.sampling.cache == CacheState::Cold) {
            return Err(Error::Usage(COLD_HOST.into()));
        }
        self.sections.iter_mut().flat_map(|section| &mut section.groups).for_each(|group| group.on_host = true);
        Ok(self)
    }

    /// Keeps only the cases with these ids, abbreviations of one id each, or patterns; all of them if `names` is empty.
    ///
    /// # Errors
    /// When a name is none, or abbreviates several ids.
    pub fn only(mut self, names: &[String]) -> Result<Self, Error> {
        if names.is_empty() {
            return Ok(self);
        }
        let all = self.ids();
        let ids = names.iter().map(|name| find_ids(name, &all)).collect::<Result<Vec<_>, _>>()?.concat();
        for section in &mut self.sections {
            for group in &mut section.groups {
                let mut variants = group.candidates().to_vec();
                variants.retain(|variant| ids.contains(&group.id(variant).to_string()));
                group.variants = variants;
                // The candidates include the device's choice.
                group.auto = false;
                group.on_host = group.host_id().is_some_and(|id| ids.contains(&id));
            }
            section.groups.retain(|group| !group.variants.is_empty() || group.on_host);
        }
        self.sections.retain(|section| !section.groups.is_empty());
        Ok(self)
    }
}

/// Returns the id of `all` that is `name`, or the only one that it abbreviates, or those that match it as a pattern.
fn find_ids(name: &String, all: &[String]) -> Result<Vec<String>, Error> {
    if all.contains(name) {
        return Ok(vec![name.clone()]);
    }
    let matching: Vec<_> = all.iter().filter(|id| is_pattern(name) && matches(name, id)).cloned().collect();
    if !matching.is_empty() {
        return Ok(matching);
    }
    let named = distinct(all.iter().filter(|id| abbreviates(name, id)).map(String::as_str));
    if let [id] = named[..] {
        return Ok(vec![id.into()]);
    }
    let id_texts: Vec<_> = all.iter().map(String::as_str).collect();
    let mut examples = if named.is_empty() { nearest(name, &id_texts) } else { named.clone() };
    examples.truncate(3);
    if examples.is_empty() {
        examples.extend(id_texts.first());
    }
    let examples = examples.join(", ");
    Err(Error::Usage(if named.is_empty() {
        format!(
            "no selected case is called '{}'; ids look like {examples}; choose its variant, dtype and size",
            brief(name)
        )
    } else {
        format!("'{}' abbreviates {} cases: {examples}; add words of the id", brief(name), named.len())
    }))
}

/// Largest nominal work of a problem that a quick `verify` runs on a software device.
const MAX_QUICK_WORK: u64 = 100_000_000;

/// Purpose of the cases, which determines the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Timing: each algorithm's default sweep, in f32.
    Bench,
    /// Conformance: awkward sizes, every element type and kind of input.
    Verify,
}

impl PlanSection {
    /// Returns this section for a kind of device, without the cases for whose ids `is_known` returns true.
    pub fn without_known(&self, kind: DeviceKind, mut is_known: impl FnMut(String) -> bool) -> Self {
        let mut section = self.clone();
        section.groups.retain(|group| group.on.suits(kind));
        for group in &mut section.groups {
            let mut variants = std::mem::take(&mut group.variants);
            variants.retain(|variant| !is_known(group.id(variant).to_string()));
            group.variants = variants;
            group.auto = group.auto && !is_known(group.id_of(AUTO).to_string());
        }
        section.groups.retain(|group| group.cases() > 0);
        section
    }

    /// Restricts problems that take a software device long to GPUs.
    pub fn quick(mut self) -> Self {
        let is_large = |group: &CaseGroup| {
            (group.algorithm.problem)(&group.spec).is_ok_and(|problem| problem.work().operations > MAX_QUICK_WORK)
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

    /// Returns the groups for a kind of device.
    pub fn groups_on(&self, kind: DeviceKind) -> impl Iterator<Item = &CaseGroup> {
        self.groups.iter().filter(move |group| group.on.suits(kind))
    }

    /// Returns a section of these groups with the devices and sampling of `selection`.
    ///
    /// # Errors
    /// When the selection is wrong.
    pub fn of(groups: Vec<CaseGroup>, selection: &Selection) -> Result<Self, String> {
        if selection.device.iter().any(|device| device == HOST) {
            return Err("kernels run on devices, not on 'host'; leave it out of --device".into());
        }
        let devices = selection.device.clone();
        let sampling = selection.sampling()?;
        Ok(Self { devices, groups, sampling })
    }

    /// Returns a section of the cases that `selection` names.
    ///
    /// # Errors
    /// When the selection is wrong.
    pub fn new(catalogue: &Catalogue, selection: &Selection, purpose: Purpose) -> Result<Self, String> {
        selector::check(&selection.device)?;
        let algorithms = choose::algorithms(catalogue, &selection.algorithm, purpose)?;
        let algorithms = choose::with_variants(algorithms, &selection.variant)?;
        check_iterates(selection, &algorithms)?;
        // A mistake in the options of any algorithm is reported before an impossible size.
        let mut cases = vec![];
        for algorithm in &algorithms {
            let variant = choose::names_for(algorithm, &algorithms, &selection.variant);
            cases.push(Cases::new(catalogue, algorithm, &Selection { variant, ..selection.clone() }, purpose)?);
        }
        let mut groups = vec![];
        for cases in &cases {
            groups.extend(cases.groups()?);
        }
        if groups.is_empty() && selection.variant.iter().any(|name| is_pattern(name)) {
            let variants = selection.variant.join(",");
            return Err(format!("no variant that '{variants}' matches has this element type, layout and input"));
        }
        let sampling = selection.sampling()?;
        if sampling.cache == CacheState::Cold && groups.iter().any(|group| group.on_host) {
            return Err(COLD_HOST.into());
        }
        Ok(Self { devices: selection.device.clone(), groups, sampling })
    }
}

/// Names the variants that `selection` includes by `all` or a pattern and that have no case in `plan`, because they lack the
/// element types or layouts that it names.
pub fn left_out(catalogue: &Catalogue, selection: &Selection, plan: &Plan) -> Vec<String> {
    let mut remarks = vec![];
    let groups: Vec<_> = plan.sections.iter().flat_map(|section| &section.groups).collect();
    let names = distinct(groups.iter().map(|group| &*group.algorithm.name));
    let algorithms: Vec<_> = names.iter().filter_map(|name| catalogue.known(name)).collect();
    for name in names.into_iter().filter(|_| !selection.variant.is_empty()) {
        let specs: Vec<_> =
            groups.iter().filter(|group| group.algorithm.name == name).map(|group| &group.spec).collect();
        let Some(algorithm) = catalogue.known(name) else { continue };
        let own_names = choose::names_for(algorithm, &algorithms, &selection.variant);
        let Ok(Variants { all, named, .. }) = choose::variants(catalogue, algorithm, &own_names) else {
            continue;
        };
        let reaches = |variant: &Variant, spec: &CaseSpec| variant.reaches(spec.goal, spec.dtype);
        let has_layout = |variant: &Variant, spec: &CaseSpec| {
            reaches(variant, spec) && variant.shaders(spec.dtype, spec.layout).is_some()
        };
        let unnamed = all.iter().copied().filter(|variant| !named.iter().any(|own| std::ptr::eq(*own, *variant)));
        let (typed, untyped): (Vec<&Variant>, Vec<&Variant>) =
            unnamed.partition(|variant| specs.iter().any(|spec| reaches(variant, spec)));
        let without_layout = typed.into_iter().filter(|variant| !specs.iter().any(|spec| has_layout(variant, spec)));
        let dtypes = distinct(specs.iter().map(|spec| spec.dtype.name())).join(" or ");
        let layouts = distinct(specs.iter().map(|spec| spec.layout.name())).join(" or ");
        for (axis, lacking, variants) in
            [(&axes::DTYPE, dtypes, untyped), (&axes::LAYOUT, format!("layout {layouts}"), without_layout.collect())]
        {
            if selection.axes.has(axis) && !variants.is_empty() {
                let names = variants.iter().map(|variant| &*variant.name).collect::<Vec<_>>().join(", ");
                remarks.push(format!("{name} without {lacking}, so not here: {names}"));
            }
        }
    }
    remarks
}

/// Overrides the tables of a configuration by the typed options. Options of the stop rule only apply to tables of
/// iterative algorithms, if there are any.
fn merge(catalogue: &Catalogue, typed: &Selection, tables: Vec<Selection>) -> Vec<Selection> {
    let iterates = |table: &Selection| {
        table.algorithm.iter().any(|name| catalogue.known(name).is_some_and(|algorithm| algorithm.iterative))
    };
    let some_iterate = typed.algorithm.is_empty() && tables.iter().any(iterates);
    let mut merged = vec![];
    for table in tables {
        let mut options = typed.clone();
        if some_iterate && !iterates(&table) {
            options.axes = options.axes.without(|axis| axis.iterative);
        }
        merged.push(options.or(table));
    }
    merged
}

/// Says what is wrong in a configuration, or that it is the description of a kernel.
fn config_mistake(file: &str, text: &str, error: &toml::de::Error) -> String {
    if text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("buffer")) {
        let word = shell_word(file);
        return format!(
            "{file} describes a kernel; `gpukern run {word}` checks and times it. A configuration lists it in a table [[run]]: description = \"{file}\""
        );
    }
    format!("{file}{}", toml_mistake(text, error))
}

/// Reads the tables of a configuration: sweeps, and runs of the user's kernels.
fn read_config(path: &Path) -> Result<(Vec<Selection>, Vec<RunTable>), Error> {
    let file = path.shown();
    let text = input_file::read_text(path).map_err(|e| {
        Error::Usage(format!(
            "cannot read configuration '{file}': {e}; list your kernels in it (`gpukern help ci`), or name another file"
        ))
    })?;
    let mut config: Config =
        toml::from_str(&text).map_err(|error| Error::Usage(config_mistake(&file, &text, &error)))?;
    // Measure identical tables once.
    let mut tables = HashSet::new();
    config.bench.retain(|table| tables.insert(format!("{table:?}")));
    if config.bench.is_empty() && config.run.is_empty() {
        return Err(Error::Usage(format!(
            "configuration '{file}' measures nothing; add a [[run]] table for a kernel of yours, or a [[bench]] table"
        )));
    }
    let place = |table: toml::Spanned<RunTable>| {
        let line = line_number(&text, table.span().start);
        RunTable { line, ..table.into_inner() }
    };
    Ok((config.bench, config.run.into_iter().map(place).collect()))
}

/// Formats a case for the plan's hash as `Debug` did in version 1, with the section's stop rule for every algorithm.
fn hash_text(algorithm: &Algorithm, spec: &CaseSpec, stop: StopRule) -> String {
    let CaseSpec { size, options, tile } = spec;
    let CaseOptions { dtype, layout, goal, mut input, seed, subgroup_size, .. } = *options;
    // Version 1 had no other name for the fills of users' kernels.
    if input == Input::Described {
        input = Input::Uniform;
    }
    // Axes beyond the first ones only count if they are unusual, so that hashes of earlier versions stay valid.
    let original_axes = ["solve", "dtype", "layout", "input", "seed", "subgroup-size", "stop", "eps", "max-rounds"];
    let defaults = algorithm.options(dtype);
    let mut added = String::new();
    for axis in AXES.iter().filter(|axis| !original_axes.contains(&axis.name) && !(axis.same)(options, &defaults)) {
        let _ = write!(added, ", {}: {:?}", axis.name, (axis.text)(options));
    }
    format!(
        "CaseSpec {{ size: {size:?}, dtype: {dtype:?}, goal: {goal:?}, layout: {layout:?}, input: {input:?}, seed: {seed}, \
         subgroup_size: {subgroup_size:?}, stop: {stop:?}, tile: {tile:?}{added} }}"
    )
}

/// Returns an error if an option of the stop rule is set and no chosen algorithm iterates.
fn check_iterates(selection: &Selection, chosen: &[&Algorithm]) -> Result<(), String> {
    if chosen.iter().any(|algorithm| algorithm.iterative) {
        return Ok(());
    }
    let Some(axis) = AXES.iter().find(|axis| axis.iterative && selection.axes.has(axis)) else { return Ok(()) };
    let names: Vec<_> = chosen.iter().map(|algorithm| &*algorithm.name).collect();
    Err(format!("--{} applies only to eigen, which iterates; leave it out for {}", axis.name, names.join(", ")))
}

/// Shuffles `items` (Fisher and Yates); the remainder's bias is negligible.
pub fn shuffle<T>(items: &mut [T], random: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::axes::AxisValues;
    use super::options::SamplingArgs;
    use super::*;
    use crate::basis::dtype::DType;
    use crate::case::Goal;
    use crate::case::input::Input;
    use crate::kernels::CATALOGUE;

    fn selection(variant: &str, size: &str) -> Selection {
        Selection {
            algorithm: vec!["matmul".into()],
            variant: vec![variant.into()],
            size: vec![size.into()],
            ..Selection::default()
        }
    }

    fn planned(selection: &Selection, purpose: Purpose) -> PlanSection {
        PlanSection::new(&CATALOGUE, selection, purpose).expect("a plan")
    }

    fn bench(selection: &Selection) -> PlanSection {
        planned(selection, Purpose::Bench)
    }

    fn solving(solve: bool) -> AxisValues {
        if solve { AxisValues::default().with("solve", true) } else { AxisValues::default() }
    }

    fn error(selection: &Selection) -> String {
        PlanSection::new(&CATALOGUE, selection, Purpose::Bench).expect_err("a mistake")
    }

    #[test]
    fn all_variants_are_those_that_have_the_type_and_a_named_one_is_kept() {
        let names_of = |variant: &[&str]| {
            let variant = variant.iter().map(ToString::to_string).collect();
            let selection = Selection {
                algorithm: vec!["matmul".into()],
                axes: AxisValues::default().with("dtype", "f32"),
                variant,
                ..Selection::default()
            };
            let plan = bench(&selection);
            plan.groups[0].variants.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>()
        };
        for all in [names_of(&[]), names_of(&["all"])] {
            assert!(all.contains(&"tiled".into()) && !all.contains(&"coopmat".into()), "{all:?}");
        }
        assert_eq!(names_of(&["coopmat", "naive"]), ["coopmat", "naive"]);
    }

    #[test]
    fn case_ids_are_stable_text() {
        let plan = bench(&selection("v2", "1000x70x130"));
        let group = &plan.groups[0];
        assert_eq!(group.id(&group.variants[0]).to_string(), "matmul/subgroup/f32/1000x70x130");
        let signed = Selection { axes: AxisValues::default().with("input", "signed"), ..selection("v0", "8") };
        let plan = bench(&signed);
        assert_eq!(plan.groups[0].id(&plan.groups[0].variants[0]).to_string(), "matmul/naive/f32/8x8x8/signed");
    }

    #[test]
    fn a_solution_is_another_case_than_its_factors() {
        let lu = |variant: &str, solve| {
            let selection = Selection { algorithm: vec!["lu".into()], axes: solving(solve), ..selection(variant, "8") };
            PlanSection::new(&CATALOGUE, &selection, Purpose::Bench)
        };
        let ids = |variant, solve| format!("{:?}", lu(variant, solve).expect("a plan").groups);
        assert_eq!(ids("blocked", false), "[[\"lu/blocked/f32/8x8\"]]");
        assert_eq!(ids("blocked", true), "[[\"lu/blocked/f32/8x8/solve\"]]");
        // `refined` only computes solutions, in f64.
        assert_eq!(ids("refined", true), "[[\"lu/refined/f64/8x8/solve\"]]");
        assert!(ids("all", true).contains("lu/naive/f32/8x8/solve") && !ids("all", false).contains("refined"));
        let refused = lu("refined", false).expect_err("no factors");
        assert_eq!(refused, "variant 'refined' of lu solves systems of equations; add --solve");
        let matmul = Selection { axes: solving(true), ..selection("naive", "8") };
        let expected = "matmul has no systems of equations to solve; leave out --solve, which is for: lu";
        assert_eq!(error(&matmul), expected);
    }

    #[test]
    fn verify_includes_factors_unless_solve_is_given() {
        let goals = |solve| {
            let selection = Selection {
                algorithm: vec!["lu".into()],
                axes: solving(solve).with("input", "uniform"),
                ..selection("all", "9")
            };
            let groups = planned(&selection, Purpose::Verify).groups;
            let goal = |group: &CaseGroup| (group.spec.goal, group.spec.dtype, group.variants.len());
            choose::unique(groups.iter().map(|group| Ok(goal(group))), |a, b| a == b).expect("no mistake")
        };
        let lu = CATALOGUE.find("lu").expect("it is in the registry");
        let plain = lu.variants.iter().filter(|variant| variant.reaches(Goal::Result, DType::F32)).count();
        let solutions = [(Goal::Solution, DType::F32, plain), (Goal::Solution, DType::F64, 1)];
        assert_eq!(goals(true), solutions);
        assert_eq!(goals(false), [&[(Goal::Result, DType::F32, plain)][..], &solutions].concat());
    }

    #[test]
    fn a_plan_can_be_cut_down_to_cases_by_id() {
        let plan = |ids: &[&str]| {
            let selection = Selection { variant: vec!["naive".into(), "local".into()], ..selection("", "8,16") };
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            Plan::new(&CATALOGUE, &selection, None)?.only(&ids)
        };
        let ids =
            |plan: &Plan| format!("{:?}", plan.sections.iter().map(|section| &section.groups).collect::<Vec<_>>());
        let cut = plan(&["matmul/local/f32/16x16x16"]).expect("it is there");
        assert_eq!(cut.ids(), ["matmul/local/f32/16x16x16"]);
        assert_eq!(ids(&cut), "[[[\"matmul/local/f32/16x16x16\"]]]");
        assert_eq!(plan(&[]).expect("all").sections[0].groups.len(), 2);
        let both =
            Plan::new(&CATALOGUE, &selection("local", "8,16"), None).expect("a plan").with_host().expect("hot caches");
        assert_eq!(both.ids().len(), 4);
        let host = both.only(&["matmul/faer/f32/16x16x16".into()]).expect("it is there");
        assert_eq!(host.ids(), ["matmul/faer/f32/16x16x16"]);
        assert_eq!(host.sections[0].groups.len(), 1);
        let error = plan(&["matmul/local/f32/9x9x9"]).expect_err("it is not").to_string();
        assert!(
            error.contains("no selected case is called 'matmul/local/f32/9x9x9'; ids look like matmul/local/f32/"),
            "{error}"
        );
        assert_eq!(plan(&["local/16x16x16"]).expect("an abbreviation").ids(), ["matmul/local/f32/16x16x16"]);
        let error = plan(&["matmul/8x8x8"]).expect_err("it is ambiguous").to_string();
        let both = "'matmul/8x8x8' abbreviates 2 cases: matmul/naive/f32/8x8x8, matmul/local/f32/8x8x8; add words";
        assert!(error.contains(both), "{error}");
        let error = plan(&["foo"]).expect_err("it is none").to_string();
        assert!(
            error.contains("no selected case is called 'foo'; ids look like matmul/naive/f32/8x8x8; choose"),
            "{error}"
        );
    }

    #[test]
    fn candidates_of_auto_can_be_selected_by_id() {
        let auto = Plan::new(&CATALOGUE, &selection("auto", "8"), None).expect("a plan");
        let id = "matmul/texel/f32/8x8x8".to_string();
        assert!(auto.ids().contains(&id));
        let cut = auto.only(std::slice::from_ref(&id)).expect("it is a candidate");
        assert_eq!((cut.ids(), cut.sections[0].groups[0].cases()), (vec![id], 1));
    }

    #[test]
    fn known_cases_and_other_devices_groups_are_left_out() {
        let section = bench(&selection("naive", "8,8x8x8,16"));
        let mut measured_ids = std::collections::BTreeSet::new();
        let mut new =
            |section: &PlanSection| section.without_known(DeviceKind::Cpu, |id| !measured_ids.insert(id)).groups.len();
        assert_eq!((new(&section), new(&section)), (2, 0));
        let both = bench(&Selection { size: vec![], ..selection("naive", "") });
        assert_eq!(new(&both), 1, "the sizes of software devices");
    }

    #[test]
    fn a_variant_named_twice_is_measured_once() {
        let twice = Selection { variant: vec!["naive".into(), "v0".into()], ..selection("", "64") };
        assert_eq!(bench(&twice).groups[0].variants.len(), 1);
    }

    #[test]
    fn a_pattern_selects_matching_variants_that_support_the_case() {
        let ids_of = |algorithms: &[&str], variant: &str, axes: AxisValues, purpose| {
            let algorithm = algorithms.iter().map(ToString::to_string).collect();
            let variant = variant.split(',').map(String::from).collect();
            let section =
                PlanSection::new(&CATALOGUE, &Selection { algorithm, variant, axes, ..Selection::default() }, purpose)?;
            let ids = |group: &CaseGroup| {
                let names = group.variants.iter().map(|variant| variant.name.to_string());
                names.map(|name| format!("{}/{name}", group.algorithm.name)).collect::<Vec<_>>()
            };
            let mut ids: Vec<_> = section.groups.iter().flat_map(ids).collect();
            ids.sort_unstable();
            ids.dedup();
            Ok::<_, String>(ids)
        };
        let dtype = |dtype: &str| AxisValues::default().with("dtype", dtype);
        let names = |variant: &str, axes| ids_of(&["matmul"], variant, axes, Purpose::Bench);
        assert_eq!(
            names("tile-*,naive", dtype("f32")).expect("cases"),
            ["matmul/naive", "matmul/tile-1d", "matmul/tile-2d"]
        );
        // Of variants without the type, those matched by a pattern are left out, named ones stay.
        assert_eq!(names("s*", dtype("f16")).expect("cases"), ["matmul/subgroup", "matmul/subgroup-shuffle"]);
        assert!(names("s*,split", dtype("f16")).expect("cases").contains(&"matmul/split".to_string()));
        let error = "no chosen variant of matmul has dtype f16; available: f32";
        assert_eq!(names("spli*", dtype("f16")), Err(error.into()));
        // A name, too, is for those of several algorithms that have it.
        let of_both = |variant: &str| ids_of(&["row-sum", "matmul"], variant, dtype("f32"), Purpose::Bench);
        assert_eq!(of_both("tiled,streaming").expect("cases"), ["matmul/tiled", "row-sum/streaming"]);
        assert_eq!(of_both("tiled").expect("cases"), ["matmul/tiled"]);
        assert!(
            of_both("tiled,blocked").is_err_and(|error| error.starts_with("'blocked' is a variant of lu, not of "))
        );
        // A pattern has to match in at least one of several algorithms.
        let both = ["matmul", "lu"];
        assert_eq!(ids_of(&both, "blocked-piv*", dtype("f32"), Purpose::Bench).expect("cases").len(), 2);
        let verified = ids_of(&[], "*-texel", AxisValues::default(), Purpose::Verify).expect("cases");
        assert_eq!(verified, ["lu/blocked-pivot-texel", "matmul/gemv-texel"]);
        let error = ids_of(&both, "*-subgruop", dtype("f32"), Purpose::Bench).expect_err("none");
        assert!(error.starts_with("no variant of matmul, lu matches '*-subgruop'; nearest: subgroup"), "{error}");
        // Variants that solve systems need --solve.
        let error = "variant 'refined' of lu solves systems of equations; add --solve";
        assert_eq!(ids_of(&["lu"], "refine*", dtype("f64"), Purpose::Bench), Err(error.into()));
        assert_eq!(
            ids_of(&["lu"], "refine*", dtype("f64").with("solve", true), Purpose::Bench),
            Ok(vec!["lu/refined".into()])
        );
    }

    #[test]
    fn verify_covers_every_dtype_and_input_at_awkward_sizes() {
        let plan = planned(&Selection::default(), Purpose::Verify);
        for algorithm in CATALOGUE.algorithms {
            let groups = || plan.groups.iter().filter(|group| group.algorithm.name == algorithm.name);
            for (goal, dtype) in
                algorithm.goals().iter().flat_map(|goal| algorithm.dtypes(*goal).map(|dtype| (*goal, dtype)))
            {
                // Iterative algorithms need a positive matrix, so `signed` has no answer.
                for input in algorithm
                    .inputs
                    .iter()
                    .filter(|input| input.has_answer() && !(algorithm.iterative && **input == Input::Signed))
                    .filter(|input| goal == Goal::Result || !is_unsolvable(**input, dtype))
                {
                    let facets = |spec: &CaseSpec| (spec.goal, spec.dtype, spec.input);
                    assert!(groups().any(|group| facets(&group.spec) == (goal, dtype, *input)));
                }
            }
        }
    }

    /// Whether no variant of lu can solve systems with this input accurately.
    fn is_unsolvable(input: Input, dtype: DType) -> bool {
        input == Input::Wilkinson || (input, dtype) == (Input::Hilbert, DType::F64)
    }

    /// Returns the inputs of the systems of equations that a plan has for a variant at a size.
    fn systems(variant: &str, size: &str, input: Option<&str>, purpose: Purpose) -> Vec<Input> {
        let axes = solving(true).with("dtype", "f32");
        let axes = input.into_iter().fold(axes, |axes, input| axes.with("input", input));
        let selection = Selection { algorithm: vec!["lu".into()], axes, ..selection(variant, size) };
        let plan = planned(&selection, purpose);
        plan.groups.iter().filter(|group| !group.variants.is_empty()).map(|group| group.spec.input).collect()
    }

    #[test]
    fn without_pivoting_a_conformance_run_asks_for_solutions_where_elimination_is_stable() {
        let dominant = Input::DiagonallyDominant;
        let verified = |variant, size| systems(variant, size, None, Purpose::Verify);
        assert_eq!(verified("blocked", "3000"), [dominant]);
        assert_eq!(verified("blocked", "100"), [dominant, Input::Hilbert]);
        assert_eq!(verified("blocked-pivot", "3000"), [Input::Uniform]);
        assert_eq!(verified("blocked-pivot", "100"), [Input::Uniform, dominant, Input::Hilbert, Input::IllScaled]);
        // A named input is used as is, and `bench` uses its default.
        assert_eq!(systems("blocked", "3000", Some("uniform"), Purpose::Verify), [Input::Uniform]);
        assert_eq!(systems("blocked", "3000", None, Purpose::Bench), [Input::Uniform]);
    }

    #[test]
    fn a_named_variant_is_verified_with_the_goals_and_types_that_it_has() {
        let cases = |variants: &str, axes: AxisValues| {
            let variant = variants.split(',').map(String::from).collect();
            let selection = Selection { algorithm: vec!["lu".into()], variant, axes, ..selection("", "64") };
            let groups = planned(&selection, Purpose::Verify).groups;
            let of_group = |group: &CaseGroup| {
                let goal = if group.spec.goal == Goal::Solution { "solution" } else { "factors" };
                let names = group.variants.iter().map(|own| format!("{} {} {goal}", own.name, group.spec.dtype));
                names.collect::<Vec<_>>()
            };
            distinct(groups.iter().flat_map(of_group))
        };
        let solved = "refined f64 solution";
        assert_eq!(cases("refined", AxisValues::default()), [solved]);
        // A variant reports that it lacks what was named.
        let typed = AxisValues::default().with("dtype", "f64");
        assert_eq!(cases("refined,naive", typed), [solved, "naive f64 solution"]);
    }

    #[test]
    fn mistakes_are_named_before_any_device_is_opened() {
        let unknown = "unknown variant 'tilde' for matmul; did you mean 'tiled'?";
        assert!(error(&selection("tilde", "64")).starts_with(unknown));
        let names = CATALOGUE.algorithms.iter().map(|algorithm| &*algorithm.name).collect::<Vec<_>>().join(", ");
        assert_eq!(error(&Selection::default()), format!("no algorithm given; name one of: {names}"));
        let auto = Selection { algorithm: vec!["lu".into()], ..selection("auto", "64") };
        assert!(error(&auto).starts_with("variant 'auto' has no rule for lu; name one of:"));
        let mixed = Selection { variant: vec!["all".into(), "naive".into()], ..selection("", "64") };
        let sampled = |sampling| Selection { sampling, ..selection("naive", "64") };
        let quick = sampled(SamplingArgs { max_time: Some("0s".into()), ..SamplingArgs::default() });
        let sampling = SamplingArgs { cache: Some("cold".into()), ..SamplingArgs::default() };
        let timed = sampled(SamplingArgs { clock: Some("host".into()), ..sampling.clone() });
        let cold = sampled(sampling);
        let on_host = Selection { device: vec![HOST.into()], ..cold.clone() };
        let of_size = |size| selection("naive", size);
        let errors = [of_size("0"), of_size("100000"), mixed, quick, timed, on_host].map(|mistake| error(&mistake));
        insta::assert_snapshot!(errors.join("\n"), @"
        size '0' is zero; the smallest size is 1
        matmul cannot have size 100000: A would have 100000×100000 elements, more than the 2^31 that kernels can index; choose a smaller size
        variants 'all,naive' mix 'all' with names; write either
        --max-time: time '0s' is not positive; write 500ms, 5s or 1m
        --clock host times whole submissions, and with --cache cold these empty the caches; leave out one
        the host's caches cannot be emptied; leave out --cache cold, or the host
        ");
        assert!(Plan::new(&CATALOGUE, &cold, None).expect("a plan").with_host().is_err());
    }
}
