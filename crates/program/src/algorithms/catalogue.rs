//! The algorithms that a program offers, as a value that is handed down.

use super::{Algorithm, CaseSpec, Variant};
use crate::basis::error;
use crate::basis::printable::brief;
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;

/// Algorithms that a program offers.
pub struct Catalogue {
    /// Algorithms, in the order of lists.
    pub algorithms: &'static [&'static Algorithm],
    /// Algorithms that measuring itself uses.
    pub probes: Probes,
}

/// Algorithms for measuring itself: to find limits, to empty caches, and to see whether a device slowed down.
pub struct Probes {
    /// Reads of a working set.
    pub memory_read: &'static Algorithm,
    /// Writes to a working set.
    pub memory_write: &'static Algorithm,
    /// Copies within a working set.
    pub memory_copy: &'static Algorithm,
    /// Products of cooperative matrices.
    pub matrix_unit: &'static Algorithm,
    /// Chains of dependent multiply-adds.
    pub fma: &'static Algorithm,
    /// Steps of each of those chains.
    pub fma_steps: u32,
    /// Builder of the program of those chains with another number of steps, if the device can run it.
    pub fma_with_steps: fn(&CaseSpec, &DeviceInfo, u32) -> Option<Program>,
}

impl Catalogue {
    /// Returns a catalogue that offers nothing, for a setup that came from another process.
    pub fn empty() -> &'static Self {
        static EMPTY: Catalogue = Catalogue {
            algorithms: &[],
            probes: Probes {
                memory_read: &Algorithm::PLAIN,
                memory_write: &Algorithm::PLAIN,
                memory_copy: &Algorithm::PLAIN,
                matrix_unit: &Algorithm::PLAIN,
                fma: &Algorithm::PLAIN,
                fma_steps: 1,
                fma_with_steps: |_, _, _| None,
            },
        };
        &EMPTY
    }

    /// Finds an algorithm by name. The error message has the nearest name.
    pub fn find(&self, name: &str) -> Result<&'static Algorithm, String> {
        self.known(name).ok_or_else(|| self.unknown(name))
    }

    /// Says what is known in place of an algorithm: the one that others call so, the variant of this name, or the nearest.
    fn unknown(&self, name: &str) -> String {
        let meant = match &*name.to_lowercase() {
            "gemm" | "sgemm" | "hgemm" | "dgemm" | "mm" | "matrix-multiply" => Some("matmul"),
            "getrf" | "lup" | "gauss" | "solve" => Some("lu"),
            "eig" | "syev" | "heev" | "eigenvalues" => Some("eigen"),
            _ => None,
        };
        if let Some(meant) = meant.and_then(|meant| self.known(meant)) {
            return format!("unknown algorithm '{}'; it is called '{}' here", brief(name), meant.name);
        }
        let mut owners = self.algorithms.iter().filter(|own| own.variants.iter().any(|variant| variant.name == name));
        if let Some(owner) = owners.next() {
            return format!(
                "'{name}' is a variant of {0}; name {0}, and its variants after -V with commas between them",
                owner.name
            );
        }
        let names = self.names(|_| true);
        let own = "; for a kernel of your own, `gpukern run k.comp` or `gpukern sanitize k.comp`";
        error::unknown("algorithm", name, "", &names) + error::meant(name, &names).map_or(own, |_| "")
    }

    /// Returns the algorithm with this name; records and tables of other versions may name unknown ones.
    pub fn known(&self, name: &str) -> Option<&'static Algorithm> {
        self.algorithms.iter().copied().find(|algorithm| algorithm.name == name)
    }

    /// Returns the names of the algorithms that `fit`, in the order of lists.
    pub fn names(&self, fit: impl Fn(&Algorithm) -> bool) -> Vec<&'static str> {
        self.algorithms.iter().filter(|algorithm| fit(algorithm)).map(|algorithm| &*algorithm.name).collect()
    }

    /// Finds a variant by name or alias. The error names other algorithms that have it, or else the nearest variant.
    pub fn variant<'a>(&self, algorithm: &'a Algorithm, name: &str) -> Result<&'a Variant, String> {
        algorithm.variant(name).map_err(|unknown| {
            let owners = self.names(|other| other.variant(name).is_ok()).join(", ");
            if owners.is_empty() {
                return unknown;
            }
            let own = algorithm.names().join(", ");
            let Algorithm { name: algorithm, .. } = algorithm;
            format!(
                "'{name}' is a variant of {owners}, not of {algorithm}; name {owners} before -V, or a variant of \
                 {algorithm}: {own}"
            )
        })
    }
}
