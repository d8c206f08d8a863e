//! Results of `gpukern tune` in the user's configuration folder: the best tile of a variant and its rate, for a device
//! with its driver, an element type and a class of sizes.

use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::tile::Tile;
use crate::algorithms::{Algorithm, Candidate, CaseSpec, Variant};
use crate::basis::alike::distinct;
use crate::basis::destination::{Destination, lockable, make_private_folder};
use crate::basis::dtype::DType;
use crate::basis::error::{Error, toml_mistake};
use crate::basis::input_file;
use crate::basis::printable::{Shown, brief, excerpt, printable};
use crate::basis::size::Size;
use crate::case::method::CacheState;
use crate::case::tile::CaseTile;
use crate::case::{CaseOptions, Goal};
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::plan::CaseGroup;
use crate::plan::axes::{self, Column};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Name and version of the file's format.
const SCHEMA: &str = "gpukern-tuned/1";

/// Version that searches for tiles: another may have other kernels.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Comment at the top of the file.
const HEAD: &str = "\
# What `gpukern tune` found, used by `gpukern bench` on the same device with the same driver (--no-tuned ignores it).
# A tile is block/warp/part: rows x columns x depth of a work-group's block, rows x columns of a warp and of a part of
# it, which an invocation or a cooperative matrix holds; of a factorization it is the columns of an outer block. A result
# without a tile is a variant that was measured beside them, for `--variant auto`. A result with spills instead of a rate
# was compiled but never run (--by-inspection), and one with a failure is of a variant that `--variant auto` leaves out:
# it crashed the driver, failed or was wrong. With `tie = true`, others may be as fast as the fastest. A
# candidate-tile may be faster than the tile: the next search begins with it, and nothing else uses it.
# Delete a result, or the file, to forget it.
";

/// Results of searches, as stored in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    schema: String,
    /// Caches of the run that uses the results. Results found with the same caches come first. Files have no such field.
    #[serde(default, skip_serializing_if = "CacheState::is_hot")]
    cache: CacheState,
    #[serde(default, rename = "result")]
    results: Vec<TuningResult>,
}

/// Model of a device with its driver. Results apply to every device of the model, so the UUID is no part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Model {
    pub device: String,
    /// PCI or Khronos vendor id.
    pub vendor_id: u32,
    /// Vendor's device id.
    pub device_id: u32,
    /// Driver's name and description of its version: the best tile depends on the compiler.
    pub driver: String,
    /// Driver version in the vendor's encoding.
    pub driver_version: u32,
}

impl Model {
    /// Returns the model of `device`.
    pub fn of(device: &DeviceInfo) -> Self {
        Self {
            device: device.name.clone(),
            vendor_id: device.vendor_id,
            device_id: device.device_id,
            driver: format!("{} {}", device.driver.name, device.driver.info).trim_end().into(),
            driver_version: device.driver.version,
        }
    }
}

/// Result of a search, or rate of a variant measured beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TuningResult {
    /// Model to which the result applies.
    #[serde(flatten)]
    pub model: Model,
    pub algorithm: String,
    pub variant: String,
    /// Options to which the result applies. The file has the axes that separate tiles: element type, and unusual
    /// values.
    #[serde(flatten, serialize_with = "write_axes", deserialize_with = "read_axes")]
    pub options: CaseOptions,
    /// Caches before each run of the search.
    #[serde(default, skip_serializing_if = "CacheState::is_hot")]
    pub cache: CacheState,
    /// Class of sizes, as named by [`class`].
    pub sizes: String,
    /// Best tile; `None` for a variant that was only measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<Tile>,
    /// Rate of the best tile, or of the variant, in GFLOP/s; `None` if it was only compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gflops: Option<f64>,
    /// Tile that may be faster: it did not take turns with the built-in one, or not clearly. The next search begins with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_tile: Option<Tile>,
    /// Whether it is the fastest of its search by less than the times are certain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tie: bool,
    /// Why the variant must not be used: it crashed the driver, failed, or was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Registers that the tile spills, if it was chosen by the compiler's statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spills: Option<f64>,
    /// Built-in tile that the best one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_in_tile: Option<Tile>,
    /// Rate of the built-in tile in GFLOP/s, measured in turns with the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_in_gflops: Option<f64>,
    /// Measured size.
    pub measured_at: String,
    /// Number of timed tiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<usize>,
    /// Time of the search (RFC 3339, UTC).
    pub date: String,
    /// Version of gpukern.
    pub gpukern: String,
}

/// Serializes the axes that separate tiles: the element type, and unusual values of the others.
fn write_axes<S: Serializer>(options: &CaseOptions, serializer: S) -> Result<S::Ok, S::Error> {
    let usual = CaseOptions::plain(options.dtype);
    let is_needed = |column: &&Column| column.name == "dtype" || (column.value)(options) != (column.value)(&usual);
    serializer.collect_map(axes::tile_columns().filter(is_needed).map(|column| (column.name, (column.value)(options))))
}

/// Deserializes the fields of [`write_axes`].
fn read_axes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CaseOptions, D::Error> {
    let fields = BTreeMap::<String, toml::Value>::deserialize(deserializer)?;
    if !fields.contains_key("dtype") {
        return Err(D::Error::missing_field("dtype"));
    }
    let mut options = CaseOptions::plain(DType::F32);
    for column in axes::tile_columns() {
        let Some(value) = fields.get(column.name) else { continue };
        let text = value.as_str().map_or_else(|| value.to_string(), String::from);
        let read = (column.read)(&text, options);
        options = read.map_err(|reason| D::Error::custom(format!("{}: {reason}", column.name)))?;
    }
    Ok(options)
}

impl TuningResult {
    /// Returns the day of the search.
    pub fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or(&self.date)
    }

    /// Whether the result is of a case like this one of `algorithm`, but for its size, on a device of this model.
    fn is_like(&self, model: &Model, algorithm: &Algorithm, spec: &CaseSpec) -> bool {
        self.model == *model
            && self.algorithm == algorithm.name
            && axes::same(&self.options, &spec.options, |separates| separates.tiles)
    }

    /// Whether the result applies to a case of `algorithm` on a device of this model.
    fn applies_to(&self, model: &Model, algorithm: &Algorithm, spec: &CaseSpec) -> bool {
        self.is_like(model, algorithm, spec) && self.sizes == class(spec.size)
    }

    /// Returns the key by which results are sorted; of two results with the same key, the later replaces the earlier.
    fn key(&self) -> impl Ord + use<'_> {
        let axis_values: Vec<_> = axes::tile_columns().map(|column| column.text(&self.options)).collect();
        (&self.model, &self.algorithm, axis_values, &self.sizes, &self.measured_at, &self.variant, !self.cache.is_hot())
    }

    /// Returns how far its size is from this one: the sum of the logarithms of the ratios of their extents.
    fn distance(&self, size: Size) -> f64 {
        let Ok(measured) = self.measured_at.parse::<Size>() else { return f64::INFINITY };
        let [a, b] = [measured, size].map(|size| size.shortest().extents());
        let ratio = |(a, b): (u64, u64)| (a as f64 / b as f64).ln().abs();
        if a.len() == b.len() { a.into_iter().zip(b).map(ratio).sum() } else { f64::INFINITY }
    }
}

/// Returns the class of a size: extents as powers of two. A size without a result of its own has the nearest one of its class.
pub fn class(size: Size) -> String {
    let round = |n: u64| {
        let below = 1u64 << n.max(1).ilog2();
        // Nearest on a logarithmic scale, where √2 is half-way.
        if u128::from(n).pow(2) > 2 * u128::from(below).pow(2) { 2 * below } else { below }
    };
    let rounded = match size {
        Size::Uniform(n) => Size::Uniform(round(n)),
        Size::Two(a, b) => Size::Two(round(a), round(b)),
        Size::Three(m, n, k) => Size::Three(round(m), round(n), round(k)),
    };
    rounded.shortest().to_string()
}

/// Returns the user's file, `gpukern/tuned.toml` in the configuration folder, if the system has such a folder.
pub fn default_path() -> Option<PathBuf> {
    dirs::config_dir().map(|folder| folder.join("gpukern").join("tuned.toml"))
}

impl Default for Tuned {
    fn default() -> Self {
        Self { schema: SCHEMA.into(), cache: CacheState::Hot, results: vec![] }
    }
}

impl Tuned {
    /// Returns no results.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether there are no results.
    pub fn is_none(&self) -> bool {
        self.results.is_empty()
    }

    /// Returns the results for a run with these caches.
    pub fn for_cache(self, cache: CacheState) -> Self {
        Self { cache, ..self }
    }

    /// Returns the caches with which a result was found, if they need mention: a run with hot caches expects hot ones.
    fn noted_cache(&self, result: &TuningResult) -> Option<CacheState> {
        [self.cache, result.cache].contains(&CacheState::Cold).then_some(result.cache)
    }

    /// Reads the results in the file at `path`; `None` if it is missing, or a device such as /dev/null.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or has another format.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        if is_device(path) {
            return Ok(None);
        }
        match input_file::read_text(path) {
            Ok(text) => Self::parse(&text, path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(path, &format!(": {error}"))),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        // Check the schema first: a newer one may have unknown fields.
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| unusable(path, &toml_mistake(text, &e)))?;
        match table.get("schema").and_then(toml::Value::as_str) {
            Some(SCHEMA) => {}
            Some(other) => return Err(unusable(path, &format!(": its schema is '{other}', not '{SCHEMA}'"))),
            None => return Err(unusable(path, &format!(": it has no schema '{SCHEMA}'"))),
        }
        let tuned: Self = toml::from_str(text).map_err(|e| unusable(path, &toml_mistake(text, &e)))?;
        for TuningResult { variant, sizes, gflops, built_in_gflops, spills, failure, .. } in &tuned.results {
            for rate in [gflops, built_in_gflops].into_iter().flatten() {
                if !rate.is_finite() || *rate <= 0.0 {
                    return Err(unusable(path, &format!(": the rate of {variant} at {sizes}, {rate}, cannot be")));
                }
            }
            if gflops.is_none() && spills.is_none() && failure.is_none() {
                return Err(unusable(path, &format!(": {variant} at {sizes} has no gflops")));
            }
        }
        Ok(tuned)
    }

    /// Adds `found` to the file at `path`, which is replaced atomically. Results with other keys stay.
    ///
    /// # Errors
    /// When the file has another format or cannot be written.
    pub fn keep(path: &Path, found: &[TuningResult]) -> Result<(), Error> {
        let file = path.shown();
        let refuse = |e: std::io::Error| {
            Error::Usage(format!(
                "cannot keep tuning results in '{file}': {e}; name another file with --tuned or GPUKERN_TUNED"
            ))
        };
        let folder = folder_of(path);
        // Only the default file is private: one that the user names may be shared with others.
        let is_new_default_file = default_path().is_some_and(|usual| usual == path) && !path.exists();
        if is_new_default_file {
            make_private_folder(folder).map_err(refuse)?;
        } else {
            std::fs::create_dir_all(folder).map_err(refuse)?;
        }
        // Lock from reading to writing, so that concurrent searches do not lose each other's results.
        let _lock = lock_folder(path);
        let mut tuned = Self::read(path)?.unwrap_or_default();
        tuned.add(found);
        let mut destination = Destination::open(path).map_err(refuse)?;
        if is_new_default_file {
            destination = destination.private().map_err(refuse)?;
        }
        let written = destination.write(tuned.text().as_bytes());
        written.map_err(|e| Error::Failure(format!("cannot keep tuning results in '{file}': {e}")))
    }

    /// Adds results, each in place of the earlier one with the same key. A variant that was only tried with its built-in
    /// tile does not replace the result of its own search, nor a compiled one that of a run.
    fn add(&mut self, results: &[TuningResult]) {
        for new in results {
            let is_weaker = |old: &TuningResult| {
                let is_beside = new.tile.is_none() && new.tried.is_none() && old.tile.is_some();
                is_beside || (new.spills.is_some() && old.spills.is_none())
            };
            if self.results.iter().any(|old| old.key() == new.key() && is_weaker(old)) {
                continue;
            }
            self.results.retain(|old| old.key() != new.key());
            self.results.push(new.clone());
        }
        self.results.sort_by(|a, b| a.key().cmp(&b.key()));
    }

    /// Formats the file.
    fn text(&self) -> String {
        format!("{HEAD}\n{}", toml::to_string(self).expect("every field is a value of TOML"))
    }

    /// Returns the results for a case of `algorithm` on `device`: those with the run's caches first, then the nearest size.
    fn nearest(&self, device: &DeviceInfo, algorithm: &Algorithm, spec: &CaseSpec) -> Vec<&TuningResult> {
        let model = Model::of(device);
        let mut results: Vec<_> =
            self.results.iter().filter(|result| result.applies_to(&model, algorithm, spec)).collect();
        results.sort_by(|a, b| a.distance(spec.size).total_cmp(&b.distance(spec.size)));
        results.sort_by_key(|result| result.cache != self.cache);
        results
    }

    /// Returns the results of all variants for a case of `algorithm` on `device`, which are of one size and cache state.
    pub fn results(&self, device: &DeviceInfo, algorithm: &Algorithm, spec: &CaseSpec) -> Vec<&TuningResult> {
        let mut results = self.nearest(device, algorithm, spec);
        results.retain(|result| result.failure.is_none());
        let first = results.first().map(|first| (first.measured_at.clone(), first.cache));
        results.retain(|result| {
            first.as_ref().is_some_and(|(at, cache)| result.measured_at == *at && result.cache == *cache)
        });
        results
    }

    /// Counts the results that `device` uses, and says why others are of no use here or these may be outdated; `None` if all are
    /// used or belong to other devices beside used ones.
    pub fn count_usable(&self, catalogue: &Catalogue, device: &DeviceInfo) -> (usize, Option<String>) {
        let model = Model::of(device);
        let own: Vec<_> = self.results.iter().filter(|result| result.model == model).collect();
        let is_known = |result: &&&TuningResult| {
            catalogue.find(&result.algorithm).is_ok_and(|algorithm| algorithm.variant(&result.variant).is_ok())
        };
        let usable = own.iter().filter(is_known).count();
        let reason = match own.iter().find(|result| !is_known(result)) {
            Some(unknown) => {
                Some(format!("there is no variant '{}' of {}", brief(&unknown.variant), brief(&unknown.algorithm)))
            }
            None if own.is_empty() => {
                Some(format!("no result is of {} with this driver; `gpukern tune` makes some", printable(&device.name)))
            }
            None => own.iter().find(|result| result.gpukern != VERSION).map(|older| {
                let version = brief(&older.gpukern);
                format!("it has results of gpukern {version}; in {VERSION} other kernels may be faster: tune again")
            }),
        };
        (usable, reason)
    }

    /// Returns the result that timed a configuration for a case of `group`; `None` if nobody timed it.
    pub fn measured(
        &self,
        device: &DeviceInfo,
        group: &CaseGroup,
        chosen: &Configuration<'_>,
    ) -> Option<&TuningResult> {
        // A result with a tile is not that of the built-in one.
        let is_tuned = matches!(chosen.tile, Some(CaseTile::Tuned { .. }));
        let is_of = |own: &&TuningResult| own.variant == *chosen.variant.name && own.tile.is_some() == is_tuned;
        let results = self.nearest(device, &group.algorithm, &group.spec);
        results.into_iter().find(|own| is_of(own) && own.gflops.is_some())
    }

    /// Returns why `variant` must not be used for a case of `algorithm` on `device`, and the day when that was found: where it
    /// failed, other sizes are under suspicion too, unless it worked at one that is nearer.
    pub fn failure(
        &self,
        device: &DeviceInfo,
        algorithm: &Algorithm,
        variant: &str,
        spec: &CaseSpec,
    ) -> Option<(&str, &str)> {
        let model = Model::of(device);
        let alike = self.results.iter().filter(|own| own.variant == variant && own.is_like(&model, algorithm, spec));
        let distance = |own: &&TuningResult| (own.distance(spec.size), own.cache != self.cache);
        let result = alike.min_by(|a, b| distance(a).partial_cmp(&distance(b)).unwrap_or(Ordering::Equal))?;
        Some((result.failure.as_deref()?, result.day()))
    }

    /// Returns the tile and result of `variant` for a case of `algorithm` on `device`, if a search found one.
    pub fn result(
        &self,
        device: &DeviceInfo,
        algorithm: &Algorithm,
        variant: &str,
        spec: &CaseSpec,
    ) -> Option<(Tile, &TuningResult)> {
        let mut results: Vec<_> = self.nearest(device, algorithm, spec);
        results.retain(|result| result.variant == variant);
        // A tile that was only compiled replaces no measured one.
        results.sort_by_key(|result| result.gflops.is_none());
        results.into_iter().find_map(|result| Some((result.tile?, result)))
    }
}

/// Returns the folder of the file at `path`, also for a bare file name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Locks the folder of the file at `path` until the returned handle is dropped. Not the file itself, because it is
/// replaced. Returns `None` if locks are not supported, as on some network file systems.
fn lock_folder(path: &Path) -> Option<std::fs::File> {
    let real_path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = lockable(folder_of(&real_path)).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

/// Whether `path` is a character device, which may be endless.
fn is_device(path: &Path) -> bool {
    #[cfg(unix)]
    let is_char_device = std::os::unix::fs::FileTypeExt::is_char_device;
    #[cfg(not(unix))]
    let is_char_device = |_: &std::fs::FileType| false;
    path.metadata().is_ok_and(|metadata| is_char_device(&metadata.file_type()))
}

/// Returns the error for a file that cannot be used, with the remedies.
fn unusable(path: &Path, reason: &str) -> Error {
    Error::Usage(format!(
        "cannot use tuning results: {}{}; name another with --tuned, ignore it with `gpukern bench --no-tuned`, or delete it \
         if `gpukern tune` made it",
        path.shown(),
        excerpt(reason)
    ))
}

/// Variant with its tile, as a device runs it.
pub struct Configuration<'a> {
    pub algorithm: &'a Algorithm,
    pub variant: &'a Variant,
    /// Case with its tile.
    pub spec: CaseSpec,
    /// Tile with its source, if the variant has tiles.
    pub tile: Option<CaseTile>,
    /// Reason of `auto` for its choice.
    pub automatic: Option<String>,
}

impl Configuration<'_> {
    /// Returns the name of the variant if `auto` chose it.
    pub fn chosen_by_auto(&self) -> Option<String> {
        self.automatic.as_ref().map(|_| self.variant.name.to_string())
    }

    /// Returns why a device cannot run it. Where `auto` chose it nevertheless, the device can run nothing that `auto` chooses from.
    pub fn refusal(&self, reason: String) -> String {
        match &self.automatic {
            Some(_) => format!("`auto` has nothing to choose from on this device: {} {reason}", self.variant.name),
            None => reason,
        }
    }

    /// Returns the sources of tile and variant, for the notes of the case.
    pub fn notes(&self) -> Vec<String> {
        self.tile.iter().map(ToString::to_string).chain(self.automatic.clone()).collect()
    }
}

/// Returns the variants that `device` runs of `group`: the named ones with tuned tiles, and the choice of `auto`.
pub fn choose<'a>(group: &'a CaseGroup, device: &DeviceInfo, tuned: &Tuned) -> Vec<Configuration<'a>> {
    let mut chosen: Vec<_> = group.variants.iter().map(|variant| with_tile(group, variant, device, tuned)).collect();
    if group.auto
        && let Some((variant, reason)) = automatic(group, device, tuned)
    {
        if !group.variants.iter().any(|named| named.name == variant.name) {
            chosen.push(with_tile(group, variant, device, tuned));
        }
        let note = format!("auto chose {}, {reason}", variant.name);
        let choice = chosen.iter_mut().find(|configuration| configuration.variant.name == variant.name);
        choice.expect("it is named or was added").automatic = Some(note);
    }
    chosen
}

/// Returns a variant of `group` with its tuned tile, if there is one that `device` can run, or the built-in one.
pub fn with_tile<'a>(
    group: &'a CaseGroup,
    variant: &'a Variant,
    device: &DeviceInfo,
    tuned: &Tuned,
) -> Configuration<'a> {
    let CaseGroup { algorithm, spec, .. } = group;
    let mut configuration = Configuration { algorithm, variant, spec: *spec, tile: None, automatic: None };
    let Some(tunable) = algorithm.tunable(variant) else { return configuration };
    let built_in_tile = tunable.tiles.built_in(spec, device);
    let built_in = built_in_tile.to_string();
    let Some((tile, result)) = tuned.result(device, algorithm, &variant.name, spec) else {
        configuration.tile = Some(CaseTile::BuiltIn { tile: built_in });
        return configuration;
    };
    let tuned_spec = CaseSpec { tile: Some(tile), ..*spec };
    let mut refusal = tunable.tiles.check_tile(&tile, spec, device).err();
    // If the device cannot run the variant with any tile, its case reports that for the built-in one.
    if refusal.is_none() && feasible(algorithm, variant, spec, device).is_ok() {
        refusal = feasible(algorithm, variant, &tuned_spec, device).err();
    }
    if let Some(reason) = refusal {
        configuration.tile = Some(CaseTile::Refused { tile: built_in, tuned: tile.to_string(), reason });
        return configuration;
    }
    if tile == built_in_tile && result.gflops.is_none() {
        configuration.tile = Some(CaseTile::BuiltIn { tile: built_in });
        return configuration;
    }
    let day = result.day().to_string();
    let at = (result.distance(spec.size) > 0.0).then(|| result.measured_at.clone());
    configuration.spec = tuned_spec;
    configuration.tile = Some(match result.gflops {
        Some(_) => CaseTile::Tuned { tile: tile.to_string(), day, at, cache: tuned.noted_cache(result) },
        None => CaseTile::Inspected { tile: tile.to_string(), day },
    });
    configuration
}

/// Returns the choice of `auto`, and the reason. Stored rates decide if they include the model's choice: otherwise
/// nothing shows that another variant is faster; or if that failed when it was tried, because the others are known to
/// work. They only decide among the variants of the model, because others use a different arithmetic, which users have
/// to request by name.
pub fn automatic<'a>(group: &'a CaseGroup, device: &DeviceInfo, tuned: &Tuned) -> Option<(&'a Variant, String)> {
    let CaseGroup { algorithm, spec, .. } = group;
    let mut candidates = favorites(algorithm, spec, device);
    let first = favorite(&candidates, algorithm, spec, device)?;
    let failure = |variant: &Variant| tuned.failure(device, algorithm, &variant.name, spec);
    candidates.retain(|variant| failure(variant).is_none());
    let by_model = favorite(&candidates, algorithm, spec, device).unwrap_or(first);
    let left_out: String = favorites(algorithm, spec, device)
        .into_iter()
        .filter_map(|variant| Some((variant, failure(variant)?)))
        .map(|(variant, (reason, day))| format!("; {} failed on {day}: {}", variant.name, brief(reason)))
        .collect();
    let (measured, inspected): (Vec<_>, Vec<_>) =
        tuned.results(device, algorithm, spec).into_iter().partition(|result| result.gflops.is_some());
    let timed: Vec<_> = measured.iter().map(|result| &*result.variant).collect();
    if failure(first).is_some() || measured.iter().any(|result| result.variant == by_model.name) {
        let mut fastest: Option<(&Variant, &TuningResult)> = None;
        for result in measured {
            let variant = candidates.iter().copied().find(|candidate| candidate.name == result.variant);
            let Some(variant) = variant else { continue };
            let tuned_spec = with_tile(group, variant, device, tuned).spec;
            let is_faster = fastest.is_none_or(|(_, best)| result.gflops >= best.gflops);
            if is_faster && feasible(algorithm, variant, &tuned_spec, device).is_ok() {
                fastest = Some((variant, result));
            }
        }
        if let Some((variant, result)) = fastest {
            let caches = CacheState::suffix(tuned.noted_cache(result));
            // Those that the model expects to be faster.
            let better = candidates.iter().map(|own| &*own.name).take_while(|name| *name != &*variant.name);
            let untimed: Vec<_> = better.filter(|name| !timed.contains(name)).collect();
            let tie = match &untimed[..] {
                _ if !result.tie => String::new(),
                [] => ", but others may be as fast".into(),
                [one] => format!("; perhaps another is faster, such as {one}, which was not timed"),
                [one, ..] => format!("; perhaps others are faster, such as {one}, which was not timed"),
            };
            let at =
                if result.distance(spec.size) > 0.0 { format!(" at {}", result.measured_at) } else { String::new() };
            let is_foreign = result.gpukern != VERSION;
            let by = if is_foreign { format!(" by gpukern {}", brief(&result.gpukern)) } else { String::new() };
            let day = result.day();
            return Some((variant, format!("the fastest of the results of {day}{by}{at}{caches}{tie}{left_out}")));
        }
    }
    // Without rates, a variant that spills with every tile is replaced by the model's next choice that does not.
    let spills = |variant: &Variant| {
        let result = inspected.iter().find(|result| result.variant == variant.name)?;
        result.spills.filter(|spills| *spills > 0.0)
    };
    if let Some(count) = spills(by_model) {
        let runs = |variant: &Variant| feasible(algorithm, variant, spec, device).is_ok();
        let next = candidates.into_iter().find(|candidate| spills(candidate).is_none() && runs(candidate));
        if let Some(next) = next {
            return Some((next, format!("by inspection: {} spills here ({count})", by_model.name)));
        }
    }
    if failure(first).is_some() {
        return Some((by_model, format!("by the model{left_out}")));
    }
    Some((by_model, advise_tuning(algorithm, spec)))
}

/// Says that nothing was measured, and how to, if `tune` can. The command has no size, because sizes share the sentence.
fn advise_tuning(algorithm: &Algorithm, spec: &CaseSpec) -> String {
    match tuning_command(algorithm, spec) {
        Some(command) => format!("by its model; run `{command}` with your sizes to measure instead"),
        None => "by its model".into(),
    }
}

/// Returns the command, without a size, that tunes an algorithm for a case; `None` if `tune` cannot.
pub fn tuning_command(algorithm: &Algorithm, spec: &CaseSpec) -> Option<String> {
    if !algorithm.variants.iter().any(|variant| variant.reaches(Goal::Result, spec.options.dtype)) {
        return None;
    }
    let mut command = format!("gpukern tune {}", algorithm.name);
    if spec.options.dtype != DType::F32 {
        let _ = write!(command, " -t {}", spec.options.dtype);
    }
    if let Some(layout) = (axes::LAYOUT.text)(&spec.options) {
        let _ = write!(command, " --layout {layout}");
    }
    Some(command)
}

/// Returns the first of the model's choices that `device` can run, or the last, whose case reports why it cannot.
fn favorite<'a>(
    variants: &[&'a Variant],
    algorithm: &Algorithm,
    spec: &CaseSpec,
    device: &DeviceInfo,
) -> Option<&'a Variant> {
    let first = variants.iter().find(|variant| feasible(algorithm, variant, spec, device).is_ok());
    first.or(variants.last()).copied()
}

/// Returns the variants that `auto` chooses from: those of the model, predicted fastest first.
pub fn favorites<'a>(algorithm: &'a Algorithm, spec: &CaseSpec, device: &DeviceInfo) -> Vec<&'a Variant> {
    let Some(model) = algorithm.candidates else { return vec![] };
    let mut variants: Vec<&Variant> = vec![];
    for candidate in model(algorithm, spec, device) {
        // A candidate for each tile, so a variant may occur several times.
        if let Ok(variant) = algorithm.variant(candidate.variant)
            && !variants.iter().any(|earlier| earlier.name == variant.name)
        {
            variants.push(variant);
        }
    }
    variants
}

/// Most variants that a search times beside the tiles, and their largest predicted time relative to the fastest.
const MAX_RIVALS: usize = 3;
const MAX_RIVAL_RATIO: f64 = 2.0;

/// Returns the variants to time beside the tiles of `variant`: those that `auto` would select here, or nearly, without
/// those that were refused.
pub fn rivals<'a>(
    algorithm: &'a Algorithm,
    spec: &CaseSpec,
    device: &DeviceInfo,
    variant: &str,
    is_refused: impl Fn(&str) -> bool,
) -> Vec<&'a Variant> {
    let Some(model) = algorithm.candidates else { return vec![] };
    let mut candidates = model(algorithm, spec, device);
    candidates.retain(|own| !is_refused(own.variant));
    let is_near = |own: &&Candidate| own.predicted.0 <= MAX_RIVAL_RATIO * candidates[0].predicted.0;
    let names = distinct(candidates.iter().filter(is_near).map(|own| own.variant));
    let others = names.into_iter().filter(|name| *name != variant);
    others.filter_map(|name| algorithm.variant(name).ok()).take(MAX_RIVALS).collect()
}

/// Returns the program of a case, or the reason why `device` cannot run it.
fn feasible(algorithm: &Algorithm, variant: &Variant, spec: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
    let problem = (algorithm.problem)(spec)?;
    algorithm.feasible(variant, spec, problem.as_ref(), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::layout::Layout;
    use crate::basis::units::Bytes;
    use crate::device::capability::DeviceKind;
    use crate::device::fixture::software_device;
    use crate::kernels::matmul::MATMUL;

    const TILE: &str = "64x128x16/64x32/16x16";

    fn kept(device: &DeviceInfo, variant: &str, sizes: &str, gflops: f64) -> TuningResult {
        let tile = (variant == "tiled").then(|| TILE.parse().expect("a tile"));
        TuningResult {
            model: Model::of(device),
            algorithm: "matmul".into(),
            variant: variant.into(),
            options: CaseOptions::plain(DType::F32),
            cache: CacheState::Hot,
            sizes: sizes.into(),
            tile,
            gflops: Some(gflops),
            tie: false,
            failure: None,
            spills: None,
            candidate_tile: None,
            built_in_tile: tile,
            built_in_gflops: tile.map(|_| gflops / 2.0),
            measured_at: sizes.into(),
            tried: tile.map(|_| 31),
            date: "2026-11-21T08:00:00Z".into(),
            gpukern: "0.1.0".into(),
        }
    }

    /// Adds results one after the other.
    fn tuned(results: &[TuningResult]) -> Tuned {
        let mut tuned = Tuned::none();
        for result in results {
            tuned.add(std::slice::from_ref(result));
        }
        tuned
    }

    fn group(variants: &[&str], auto: bool, n: u64) -> CaseGroup {
        let variants = variants.iter().map(|name| MATMUL.variant(name).expect("it is in the table").clone()).collect();
        let spec = CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32);
        CaseGroup { auto, ..CaseGroup::new((&MATMUL).into(), spec, variants) }
    }

    /// Returns the notes on each variant that `device` runs of `group`.
    fn notes(group: &CaseGroup, device: &DeviceInfo, tuned: &Tuned) -> Vec<Vec<String>> {
        choose(group, device, tuned).iter().map(Configuration::notes).collect()
    }

    #[test]
    fn a_rate_without_a_tile_does_not_replace_a_search() {
        let device = software_device();
        let searched = kept(&device, "tiled", "1024", 40.0);
        let beside = TuningResult { variant: "tiled".into(), ..kept(&device, "other", "1024", 30.0) };
        let later = TuningResult { gflops: Some(50.0), ..searched.clone() };
        for (added, expected) in
            [([&searched, &beside], &searched), ([&beside, &searched], &searched), ([&searched, &later], &later)]
        {
            assert_eq!(tuned(&added.map(Clone::clone)).results, std::slice::from_ref(expected));
        }
    }

    #[test]
    fn results_survive_the_file_beside_those_of_other_devices() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/tuned.toml");
        assert_eq!(Tuned::read(&path).expect("no file is no mistake"), None);
        let ours = software_device();
        let mut other_device = software_device();
        other_device.name = "other \"device\" \n of \\ odd name".into();
        let mut newer = software_device();
        newer.driver.version += 1;
        let results = [&ours, &other_device, &newer].map(|device| kept(device, "tiled", "1024", 4.5));
        Tuned::keep(&path, &results).expect("kept");
        let rate = [kept(&ours, "texel", "1024", 30.0)];
        Tuned::keep(&path, &rate).expect("kept");
        let again = [kept(&ours, "tiled", "1024", 5.0)];
        Tuned::keep(&path, &again).expect("kept");

        let expected = tuned(&[&again[..], &results[1..], &rate].concat());
        assert_eq!(Tuned::read(&path).expect("whole"), Some(expected));
        let text = std::fs::read_to_string(&path).expect("readable");
        for line in ["tile = \"64x128x16/64x32/16x16\"", "gflops = 5.0", "sizes = \"1024\"", "# What `gpukern tune`"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(std::fs::read_dir(path.parent().expect("it has one")).expect("a folder").count(), 1, "a draft");
    }

    #[test]
    fn searches_at_once_keep_the_results_of_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tuned.toml");
        let device = software_device();
        let sizes: Vec<String> = (4..20).map(|power| (1u64 << power).to_string()).collect();
        std::thread::scope(|scope| {
            for size in &sizes {
                scope.spawn(|| Tuned::keep(&path, &[kept(&device, "tiled", size, 1.0)]).expect("kept"));
            }
        });
        assert_eq!(Tuned::read(&path).expect("whole").expect("there").results.len(), sizes.len());
    }

    #[test]
    fn a_damaged_file_is_refused_by_path_and_stays_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tuned.toml");
        let whole = tuned(&[kept(&software_device(), "tiled", "1024", 4.5)]).text();
        for (text, expected) in [
            (String::new(), "it has no schema 'gpukern-tuned/1'"),
            ("[[bench]]\nalgorithm = 'matmul'".into(), "it has no schema"),
            ("schema = 'gpukern-tuned/2'".into(), "its schema is 'gpukern-tuned/2'"),
            (whole[..whole.len() - 40].into(), ":28: "),
            (whole.replace("gflops = 4.5", "gflops = -1.0"), "the rate of tiled at 1024, -1, cannot be"),
            (whole.replace("gflops = 4.5", "gflops = nan"), "cannot be"),
            (whole.replace(TILE, "64x128x16/48x32/16x16"), "48 does not divide 64"),
            (whole.replace("f32", "f33"), "f33"),
        ] {
            std::fs::write(&path, &text).expect("written");
            let keep_error = Tuned::keep(&path, &[]).expect_err(expected).to_string();
            let read = Tuned::read(&path).expect_err(expected).to_string();
            for error in [keep_error, read] {
                let path = path.display().to_string();
                for part in [expected, path.as_str(), "delete it", "--tuned"] {
                    assert!(error.contains(part), "lacks '{part}': {error}");
                }
            }
            assert_eq!(std::fs::read_to_string(&path).expect("readable"), text);
        }
    }

    #[test]
    fn a_size_has_its_own_result_or_else_the_nearest_of_its_class() {
        let device = software_device();
        let at =
            |size: &str, gflops| TuningResult { measured_at: size.into(), ..kept(&device, "tiled", "1024", gflops) };
        let rival = TuningResult { measured_at: "1000".into(), ..kept(&device, "texel", "1024", 9.0) };
        let tuned = tuned(&[at("1024", 1.0), at("800", 2.0), rival]);
        for (n, expected) in [(800, "800"), (1000, "1024"), (1024, "1024"), (780, "800"), (1400, "1024")] {
            let spec = CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32);
            let (_, result) = tuned.result(&device, &MATMUL, "tiled", &spec).expect("one of the class");
            assert_eq!(result.measured_at, expected, "{n}");
        }
        // Rates are compared at one size only.
        let spec = CaseSpec::new(&MATMUL, Size::Uniform(1001), DType::F32);
        let rates: Vec<_> = tuned.results(&device, &MATMUL, &spec).into_iter().map(|result| result.gflops).collect();
        assert_eq!(rates, [Some(9.0)]);
        let notes = notes(&group(&["tiled"], false, 1400), &device, &tuned);
        assert_eq!(notes, [["tile 64×128×16 in 64×32 in 16×16, tuned 2026-11-21 at 1024"]]);
    }

    #[test]
    fn results_with_the_caches_of_the_run_come_first_and_others_say_theirs() {
        let device = software_device();
        let [tiled, texel] = [("tiled", 4.0), ("texel", 3.0)].map(|(name, rate)| kept(&device, name, "1024", rate));
        let cold = |hot: &TuningResult, gflops| TuningResult {
            cache: CacheState::Cold,
            gflops: Some(gflops),
            date: "2026-11-22T08:00:00Z".into(),
            ..hot.clone()
        };
        let choice = |results: &[TuningResult], cache| {
            let text = tuned(results).text();
            let read = Tuned::parse(&text, Path::new("tuned.toml")).expect(&text).for_cache(cache);
            notes(&group(&[], true, 1024), &device, &read).concat().join("; ")
        };
        let hot = [tiled.clone(), texel.clone()];
        let both = [&hot[..], &[cold(&tiled, 1.0), cold(&texel, 2.0)]].concat();
        let tile = "tile 64×128×16 in 64×32 in 16×16, tuned 2026-11-21";
        let by = |name: &str, day: u32| format!("auto chose {name}, the fastest of the results of 2026-11-{day}");
        assert_eq!(choice(&both, CacheState::Hot), format!("{tile}; {}", by("tiled", 21)));
        assert_eq!(choice(&both, CacheState::Cold), format!("{} with cold caches", by("texel", 22)));
        let hot_in_cold = format!("{tile} with hot caches; {} with hot caches", by("tiled", 21));
        assert_eq!(choice(&hot, CacheState::Cold), hot_in_cold);
        assert_eq!(choice(&both[2..], CacheState::Hot), format!("{} with cold caches", by("texel", 22)));
    }

    #[test]
    fn sizes_share_the_results_of_the_nearest_power_of_two() {
        let class = |m, n, k| class(Size::Three(m, n, k));
        assert_eq!(super::class(Size::Uniform(1000)), "1024");
        assert_eq!(super::class(Size::Uniform(1448)), "1024");
        assert_eq!(super::class(Size::Uniform(1449)), "2048");
        assert_eq!((class(1000, 1100, 1024), class(1000, 70, 1)), ("1024".into(), "1024x64x1".into()));
    }

    #[test]
    fn a_tuned_tile_applies_to_its_device_type_and_class_only() {
        let device = software_device();
        let tuned = tuned(&[kept(&device, "tiled", "1024", 4.5)]);
        let both = group(&["tiled", "naive"], false, 1000);
        let [tiled, naive] = &choose(&both, &device, &tuned)[..] else { panic!("two variants") };
        assert_eq!((&*tiled.variant.name, tiled.spec.tile.map(String::from)), ("tiled", Some(TILE.into())));
        assert_eq!((&*naive.variant.name, naive.spec.tile), ("naive", None));
        let tuned_note = "tile 64×128×16 in 64×32 in 16×16, tuned 2026-11-21 at 1024".to_string();
        assert_eq!([tiled.notes(), naive.notes()], [vec![tuned_note], vec![]]);
        let first_notes = |n, device: &DeviceInfo| notes(&group(&["tiled"], false, n), device, &tuned).remove(0);
        let built_in = "tile 64×64×16 in 64×32 in 16×16, built in";
        assert_eq!(first_notes(2048, &device), [built_in]);
        let mut small = software_device();
        small.limits.shared_memory = Bytes(9 << 10);
        let reason = "as the tuned 64×128×16 in 64×32 in 16×16 needs 12.2 KiB of shared memory; the device has 9 KiB";
        assert_eq!(first_notes(1024, &small), [format!("{built_in}, {reason}")]);
        let mut newer = software_device();
        newer.driver.version += 1;
        assert_eq!(first_notes(1024, &newer), [built_in]);
    }

    #[test]
    fn a_result_applies_if_the_axes_that_separate_tiles_agree() {
        let device = software_device();
        let spec = CaseSpec::new(&MATMUL, Size::Uniform(1024), DType::F32);
        let result = kept(&device, "tiled", "1024", 4.5);
        let holds = |spec: &CaseSpec| result.applies_to(&Model::of(&device), &MATMUL, spec);
        assert!(holds(&spec) && holds(&spec.with(|options| options.seed = 2)));
        assert!(holds(&spec.with(|options| (options.goal, options.subgroup_size) = (Goal::Solution, Some(8)))));
        assert!(!holds(&spec.with(|options| options.dtype = DType::F16)));
        assert!(!holds(&spec.with(|options| options.layout = Layout::Nt)));
    }

    /// Returns a result of `tune --by-inspection`.
    fn inspected(device: &DeviceInfo, variant: &str, spills: f64) -> TuningResult {
        TuningResult { gflops: None, built_in_gflops: None, spills: Some(spills), ..kept(device, variant, "1024", 1.0) }
    }

    #[test]
    fn a_compiled_result_never_replaces_a_measured_one() {
        let device = software_device();
        let compiled = inspected(&device, "tiled", 0.0);
        let measured = kept(&device, "tiled", "1024", 4.5);
        let text = tuned(std::slice::from_ref(&compiled)).text();
        assert!(text.contains("spills = 0.0") && !text.contains("gflops"), "{text}");
        let read = Tuned::parse(&text, Path::new("tuned.toml")).expect(&text);
        assert_eq!(
            notes(&group(&["tiled"], false, 1024), &device, &read)[0],
            ["tile 64×128×16 in 64×32 in 16×16, by inspection, 2026-11-21"]
        );
        for added in [[&measured, &compiled], [&compiled, &measured]] {
            assert_eq!(tuned(&added.map(Clone::clone)).results, std::slice::from_ref(&measured));
        }
        let neither = text.replace("spills = 0.0\n", "");
        let error = Tuned::parse(&neither, Path::new("tuned.toml")).expect_err("refused").to_string();
        insta::assert_snapshot!(error, @"
        cannot use tuning results: tuned.toml: tiled at 1024 has no gflops; name another with --tuned, ignore it with `gpukern bench --no-tuned`, or delete it if `gpukern tune` made it
        ");
    }

    #[test]
    fn auto_skips_a_variant_that_spills_with_every_tile() {
        let device = software_device();
        let auto_group = group(&[], true, 1024);
        let reason = |results: &[TuningResult]| notes(&auto_group, &device, &tuned(results)).remove(0).pop();
        let first = &favorites(&MATMUL, &auto_group.spec, &device)[0].name;
        let by_model = reason(&[]).expect("a reason");
        assert_eq!(reason(&[inspected(&device, first, 0.0)]), Some(by_model));
        let reason_of_next = reason(&[inspected(&device, first, 12.0)]).expect("a reason");
        assert!(reason_of_next.ends_with(&format!(", by inspection: {first} spills here (12)")), "{reason_of_next}");
        assert!(!reason_of_next.starts_with(&**first), "{reason_of_next}");
    }

    #[test]
    fn a_stored_result_keeps_every_axis_that_separates_tiles() {
        let usual =
            TuningResult { options: crate::plan::fixture::usual(), ..kept(&software_device(), "tiled", "1024", 4.5) };
        for axis in axes::AXES.iter().filter(|axis| axis.separates.tiles) {
            let unusual = TuningResult { options: crate::plan::fixture::unusual_on(axis), ..usual.clone() };
            let text = tuned(&[usual.clone(), unusual.clone()]).text();
            let read = Tuned::parse(&text, Path::new("tuned.toml")).expect(&text).results;
            let has = |kept: &TuningResult| read.iter().any(|read| (axis.same)(&read.options, &kept.options));
            assert!(read.len() == 2 && has(&usual) && has(&unusual), "{}: {text}", axis.name);
        }
    }

    #[test]
    fn auto_is_the_rules_choice_until_a_search_measured_something_better() {
        let device = software_device();
        let auto_group = group(&[], true, 1024);
        let auto = |results: &[TuningResult]| {
            let tuned = tuned(results);
            choose(&auto_group, &device, &tuned).remove(0)
        };
        let untimed =
            "auto chose texel, by its model; run `gpukern tune matmul` with your sizes to measure instead".to_string();
        let [tiled, texel] = [("tiled", 4.5), ("texel", 30.0)].map(|(name, rate)| kept(&device, name, "1024", rate));
        assert_eq!((auto(&[]).notes(), auto(&[]).spec.tile), (vec![untimed], None));
        // A rate without one of the rule's choice does not count.
        assert_eq!(auto(std::slice::from_ref(&tiled)).variant.name, "texel");
        let slower = [tiled.clone(), texel.clone()];
        assert_eq!(auto(&slower).notes(), ["auto chose texel, the fastest of the results of 2026-11-21"]);
        let faster = auto(&[tiled, TuningResult { gflops: Some(3.0), ..texel }]);
        assert_eq!((&*faster.variant.name, faster.spec.tile.map(String::from)), ("tiled", Some(TILE.into())));
        assert_eq!(faster.notes()[1], "auto chose tiled, the fastest of the results of 2026-11-21");
        // A variant with different arithmetic is never chosen, however fast.
        let split = [&slower[..], &[kept(&device, "split", "1024", 300.0)]].concat();
        assert_eq!(auto(&split).variant.name, "texel");
    }

    #[test]
    fn auto_leaves_out_what_failed_and_says_so_and_names_a_tie() {
        let device = software_device();
        let auto_group = group(&[], true, 1024);
        let failed = |variant: &str| TuningResult {
            tile: None,
            gflops: None,
            tried: None,
            failure: Some("SIGILL".into()),
            ..kept(&device, variant, "1024", 1.0)
        };
        let reason = |results: &[TuningResult]| {
            let text = tuned(results).text();
            let read = Tuned::parse(&text, Path::new("tuned.toml")).expect(&text);
            notes(&auto_group, &device, &read).concat().pop().expect("a reason")
        };
        let [first, next] = [0, 1].map(|at| favorites(&MATMUL, &auto_group.spec, &device)[at].name.to_string());
        let by_model = format!("auto chose {next}, by the model; {first} failed on 2026-11-21: SIGILL");
        assert_eq!(reason(&[failed(&first)]), by_model);
        // A variant that is known to work is better than the model's guess.
        let measured = TuningResult { tie: true, ..kept(&device, "naive", "1024", 1.0) };
        let by_time = "auto chose naive, the fastest of the results of 2026-11-21; perhaps others are faster, such as \
                       tiled, which was not timed";
        let left_out = |variant: &str| format!("; {variant} failed on 2026-11-21: SIGILL");
        assert_eq!(reason(&[failed(&first), measured.clone()]), by_time.to_string() + &left_out(&first));
        let both = reason(&[failed(&first), failed(&next), measured]);
        let rest = by_time.replace("tiled", "vectorised");
        assert_eq!(both, [&*rest, &left_out(&first), &left_out(&next)].concat());
        // A failure holds for the sizes nearest to it, and every choice of the model may have failed.
        let worked = TuningResult { measured_at: "1000".into(), ..kept(&device, &first, "1024", 9.0) };
        assert!(
            !reason(&[failed(&first), TuningResult { measured_at: "1024".into(), ..worked.clone() }])
                .contains("failed")
        );
        assert_eq!(reason(&[failed(&first), worked]), by_model);
        // A variant that failed at another size is not trusted, unless it worked at one that is nearer.
        let far = |own: TuningResult, size: &str| TuningResult { sizes: size.into(), measured_at: size.into(), ..own };
        assert_eq!(reason(&[far(failed(&first), "64")]), by_model);
        let nearer = far(kept(&device, &first, "512", 9.0), "512");
        assert!(!reason(&[far(failed(&first), "64"), nearer]).contains("failed"));
        let all: Vec<_> = favorites(&MATMUL, &auto_group.spec, &device).iter().map(|own| failed(&own.name)).collect();
        assert!(reason(&all).starts_with(&format!("auto chose {first}, by the model; {first} failed")));
    }

    #[test]
    fn a_failure_of_a_search_replaces_its_tile_and_one_beside_another_search_does_not() {
        let device = software_device();
        let searched = kept(&device, "tiled", "1024", 40.0);
        let failed = |tried| TuningResult {
            tile: None,
            gflops: None,
            tried,
            failure: Some("SIGILL".into()),
            ..searched.clone()
        };
        let [own, beside] = [failed(Some(0)), failed(None)];
        let compiled = inspected(&device, "tiled", 0.0);
        for (added, expected) in [
            ([&searched, &own], &own),
            ([&searched, &beside], &searched),
            ([&own, &searched], &searched),
            ([&own, &compiled], &own),
        ] {
            assert_eq!(tuned(&added.map(Clone::clone)).results, std::slice::from_ref(expected));
        }
    }

    #[test]
    fn auto_falls_back_on_a_limited_device_and_joins_named_variants() {
        let mut device = software_device();
        device.limits.texel_buffer_elements = 1;
        let auto = |variants: &[&str], device: &DeviceInfo| {
            let group = group(variants, true, 1024);
            let chosen = choose(&group, device, &Tuned::none());
            chosen.iter().map(|configuration| configuration.variant.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(auto(&[], &device), ["tiled"]);
        assert_eq!(auto(&["naive", "tiled"], &device), ["naive", "tiled"]);
        device.kind = DeviceKind::DiscreteGpu;
        assert_eq!(auto(&["naive"], &device), ["naive", "tiled"]);
    }

    /// Returns devices that lack something, with the name of it.
    fn limited(kind: DeviceKind) -> Vec<(&'static str, DeviceInfo)> {
        let device = |change: fn(&mut DeviceInfo)| {
            let mut device = software_device();
            device.kind = kind;
            change(&mut device);
            device
        };
        vec![
            ("nothing", device(|_| {})),
            ("views", device(|d| d.limits.texel_buffer_elements = 1 << 10)),
            ("shared memory", device(|d| d.limits.shared_memory = Bytes(1 << 10))),
            ("invocations", device(|d| (d.limits.group_invocations, d.limits.group_size) = (64, [64; 3]))),
            ("work-groups", device(|d| d.limits.group_count = [40; 3])),
            ("loops", device(|d| d.limits.loop_iterations = Some(600))),
            ("buffers", device(|d| d.limits.buffer = Bytes(1 << 20))),
            ("memory", device(|d| d.heaps.iter_mut().for_each(|heap| heap.size = Bytes(1 << 21)))),
            ("features", device(|d| d.features.clear())),
            ("push constants", device(|d| d.limits.push_constants = Bytes(16))),
            ("operations", device(|d| d.subgroup.operations.clear())),
            (
                "views, shared memory and buffers",
                device(|d| {
                    d.limits.texel_buffer_elements = 1;
                    d.limits.shared_memory = Bytes(4 << 10);
                    d.limits.buffer = Bytes(8 << 20);
                }),
            ),
        ]
    }

    #[test]
    fn auto_never_picks_a_skipped_variant_if_another_runs() {
        let mut picked = std::collections::BTreeSet::new();
        for kind in [DeviceKind::Cpu, DeviceKind::DiscreteGpu] {
            for (lacks, device) in limited(kind) {
                let rates = [("tiled", 9.0), ("texel", 5.0), ("vectorised", 4.0), ("subgroup", 3.0), ("naive", 1.0)];
                let rates = rates.map(|(variant, rate)| kept(&device, variant, "1024", rate));
                for (tuned, n) in [Tuned::none(), tuned(&rates)].iter().flat_map(|t| [(t, 64), (t, 1024), (t, 2048)]) {
                    for dtype in MATMUL.dtypes(Goal::Result) {
                        let mut group = group(&[], true, n);
                        group.spec.dtype = dtype;
                        let [own] = &choose(&group, &device, tuned)[..] else { panic!("one variant") };
                        let Configuration { variant, spec, .. } = own;
                        let refusal = own.refusal("needs it".into());
                        let told =
                            format!("`auto` has nothing to choose from on this device: {} needs it", variant.name);
                        assert_eq!(refusal, told, "whoever did not name {} must not read of it alone", variant.name);
                        let runs = |variant, spec| feasible(&MATMUL, variant, spec, &device);
                        let any = favorites(&MATMUL, &group.spec, &device);
                        let any = any.into_iter().any(|variant| runs(variant, &group.spec).is_ok());
                        let program = runs(variant, spec);
                        assert_eq!(program.is_ok(), any, "{kind} without {lacks}, {dtype} {n}: {program:?}");
                        picked.insert((variant.name.clone(), any));
                    }
                }
            }
        }
        assert!(
            picked.iter().filter(|(_, runs)| *runs).count() > 4 && picked.iter().any(|(_, runs)| !runs),
            "{picked:?}"
        );
    }
}
