//! What the catalogue says of a case.

use super::{Case, Record};
use crate::algorithms::Variant;
use crate::algorithms::catalogue::Catalogue;
use crate::case::quantity::Quantity;
use crate::case::{CaseOptions, Form, Shortcut};

/// What the catalogue says of a case's algorithm and variant. A record does not contain it; whoever reads or measures a
/// case looks it up. Empty for users' kernels, and for names of other versions.
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

/// A case is the same whether or not it was looked up.
impl PartialEq for CatalogueEntry {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Case {
    /// Looks the case up in the catalogue.
    pub fn attach_entry(&mut self, catalogue: &Catalogue) {
        self.entry = CatalogueEntry::default();
        let Some(position) = catalogue.algorithms.iter().position(|known| known.name == self.algorithm) else { return };
        let algorithm = catalogue.algorithms[position];
        let place = algorithm.variants.iter().position(|known| known.name == self.variant);
        let variant = place.map(|place| &algorithm.variants[place]);
        self.entry = CatalogueEntry {
            algorithm: Some(position),
            defaults: Some(algorithm.options(self.dtype)),
            variant: place,
            form: variant.and_then(Variant::form),
            shortcuts: variant.map_or(&[], Variant::shortcuts),
            limit: variant.and_then(|variant| variant.limit(self.size.known()?, self.dtype)),
        };
    }
}

impl Record {
    /// Looks all cases up in the catalogue.
    pub fn attach_entry(&mut self, catalogue: &Catalogue) {
        self.cases.iter_mut().for_each(|case| case.attach_entry(catalogue));
    }
}
