//! Figures that others published, for the cases of a run.

use super::CaseGroup;
use super::cases::Cases;
use super::options::Published;
use crate::algorithms::{self, Algorithm, Variant};
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use std::collections::HashSet;
use std::fmt;

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
    /// The figures of `source` for the cases of the algorithms of a run.
    pub(super) fn new(source: &Published, cases: &[Cases]) -> Result<Self, String> {
        let place = |message: String| source.error(&message);
        let algorithm = match (&source.algorithm, cases) {
            (Some(name), _) => algorithms::find(name).map_err(place)?,
            (None, [only]) => only.algorithm,
            (None, several) => {
                let name = several.first().map_or("matmul", |cases| cases.algorithm.name);
                return Err(place(format!(
                    "the run has several algorithms; write algorithm = '{name}' beside the figures"
                )));
            }
        };
        // Figures of no type that is measured are beside nothing.
        let measured = cases.iter().find(|cases| std::ptr::eq(cases.algorithm, algorithm));
        let dtype = match (source.dtype, &measured.map_or(vec![], Cases::dtypes)[..]) {
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
    pub(super) fn check_measured(&self, groups: &[CaseGroup]) -> Result<(), String> {
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
