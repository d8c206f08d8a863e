//! Facts about cases that are in the catalogue and not in a record.

use super::{Case, Record};
use crate::algorithms::catalogue::Catalogue;
use crate::case::quantity::Quantity;
use crate::case::{CaseOptions, Form, Shortcut};

/// Facts about a case from the catalogue's entries of its algorithm and variant. A record does not contain them, so they
/// are attached to each case that is read or measured. Empty for users' kernels, and for names of other versions.
#[derive(Clone, Copy, Debug, Default)]
pub struct CatalogueEntry {
    /// Position of the algorithm in lists.
    pub algorithm: Option<usize>,
    /// Default options of the algorithm for the case's element type.
    pub defaults: Option<CaseOptions>,
    /// Position of the variant in lists; `None` for a host baseline.
    pub variant: Option<usize>,
    /// Operation and form, if the variant is one form of an operation.
    pub form: Option<Form>,
    /// Shortcuts of the variant, for records that do not state them.
    pub shortcuts: &'static [Shortcut],
    /// Limit of the device that the case measures.
    pub limit: Option<Quantity>,
}

/// A case equals itself with and without its facts.
impl PartialEq for CatalogueEntry {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Case {
    /// Sets [`Self::entry`] to the facts about the case's algorithm and variant.
    pub fn attach_entry(&mut self, catalogue: &Catalogue) {
        self.entry = CatalogueEntry::default();
        let position = catalogue.algorithms.iter().position(|algorithm| algorithm.name == self.algorithm);
        let Some(position) = position else { return };
        let algorithm = catalogue.algorithms[position];
        self.entry.algorithm = Some(position);
        self.entry.defaults = Some(algorithm.options(self.dtype));
        let Some(position) = algorithm.variants.iter().position(|variant| variant.name == self.variant) else { return };
        let variant = &algorithm.variants[position];
        self.entry.variant = Some(position);
        self.entry.form = variant.form();
        self.entry.shortcuts = variant.shortcuts();
        self.entry.limit = self.size.known().and_then(|size| variant.limit(size, self.dtype));
    }
}

impl Record {
    /// Sets the catalogue entry of every case.
    pub fn attach_entries(&mut self, catalogue: &Catalogue) {
        for case in &mut self.cases {
            case.attach_entry(catalogue);
        }
    }
}
