//! Serializable groups of cases.

use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::handle::Handle;
use crate::plan::CaseGroup;
use serde::{Deserialize, Serialize};

/// Group of cases with its algorithm and variants by name, for another process.
#[derive(Clone, Serialize, Deserialize)]
pub struct SentGroup {
    algorithm: String,
    spec: CaseSpec,
    variants: Vec<String>,
    auto: bool,
    turns: Option<usize>,
    /// Group itself; `None` in the other process.
    #[serde(skip)]
    group: Option<CaseGroup>,
}

impl From<&CaseGroup> for SentGroup {
    fn from(group: &CaseGroup) -> Self {
        Self {
            algorithm: group.algorithm.name.to_string(),
            spec: group.spec,
            variants: group.variants.iter().map(|variant| variant.name.to_string()).collect(),
            auto: group.auto,
            turns: group.turns,
            group: Some(group.clone()),
        }
    }
}

impl SentGroup {
    /// Returns the group of one of these algorithms; an error if the other process runs another version.
    pub fn resolve(self, algorithms: &[Handle<Algorithm>]) -> Result<CaseGroup, String> {
        if let Some(group) = self.group {
            return Ok(group);
        }
        let algorithm = algorithms.iter().find(|algorithm| algorithm.name == self.algorithm);
        let algorithm = algorithm.ok_or_else(|| format!("there is no algorithm {}", self.algorithm))?;
        let variants = self.variants.iter().map(|name| algorithm.variant(name).cloned()).collect::<Result<_, _>>()?;
        Ok(CaseGroup { auto: self.auto, turns: self.turns, ..CaseGroup::new(algorithm.clone(), self.spec, variants) })
    }
}
