//! Classes of cases that may be ranked together.

use super::Case;
use super::marks::Mark;
use crate::basis::dtype::DType;
use crate::case::Computes;
use crate::case::Shortcut;
use std::fmt;

/// Class of cases that compete: same arithmetic and same shortcuts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class {
    shortcuts: Vec<Shortcut>,
    /// Arithmetic, and the element type that it replaces.
    computes: Option<(Computes, DType)>,
}

impl Class {
    /// Returns the class of `case`.
    pub fn of(case: &Case) -> Self {
        // Old records lack shortcuts.
        let shortcuts = if case.shortcuts.is_empty() { case.entry.shortcuts.to_vec() } else { case.shortcuts.clone() };
        Self { shortcuts, computes: case.computes.map(|computes| (computes, case.dtype)) }
    }

    /// Whether the answers are as good as algorithm and element type promise.
    pub fn is_exact(&self) -> bool {
        *self == Self::default()
    }

    /// Describes the limitations of answers in this class.
    pub fn caveats(&self) -> Vec<Mark> {
        let mut caveats = vec![];
        for shortcut in &self.shortcuts {
            // A different arithmetic already implies less accuracy.
            if self.computes.is_none() || *shortcut != Shortcut::LessAccurate {
                caveats.push(Mark::new(shortcut.name(), shortcut.meaning()));
            }
        }
        if let Some((Computes { dtype, operations }, own)) = self.computes {
            let is_less_accurate = self.shortcuts.contains(&Shortcut::LessAccurate);
            let errors = if is_less_accurate { ", and is less accurate" } else { "" };
            caveats.push(match operations {
                1 => Mark::new(format!("{dtype} arithmetic"), format!("computes in {dtype} in place of {own}{errors}")),
                count => Mark::new(
                    format!("{count}×{dtype}"),
                    format!("takes {count} operations in {dtype} for each one in {own}{errors}"),
                ),
            });
        }
        caveats
    }
}

/// Formats the class for display beside the name of a variant: `(no pivoting, 3×f16)`; empty for an exact one.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.caveats().into_iter().map(|caveat| caveat.sign).collect();
        if names.is_empty() { Ok(()) } else { write!(f, "({})", names.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::CATALOGUE;
    use crate::record::reader;

    #[test]
    fn old_records_derive_shortcuts_from_variants() {
        let class_text = |path: &str, variant: &str| {
            let bytes = std::fs::read(crate::basis::fixture::in_repository(path)).expect("a published record");
            let record = reader::parse(&bytes, path, &CATALOGUE).expect("a record").record;
            let case = record.cases.into_iter().find(|case| case.variant == variant).expect("a case");
            assert!(case.shortcuts.is_empty(), "the record shows what the test needs");
            Class::of(&case).to_string()
        };
        let of_lu =
            ["blocked", "blocked-split", "blocked-pivot"].map(|variant| class_text("results/h100-lu.json", variant));
        assert_eq!(of_lu, ["(no pivoting)", "(no pivoting, 3×f16)", ""]);
        let units =
            ["split", "coopmat-narrow", "tiled"].map(|variant| class_text("results/h100-matmul-all.json", variant));
        assert_eq!(units, ["(3×f16)", "(less accurate)", ""]);
    }

    #[test]
    fn the_class_of_a_case_is_in_its_record() {
        let mut case = crate::record::fixture::four_cases().cases.remove(0);
        assert!(Class::of(&case).is_exact() && Class::of(&case).to_string().is_empty());
        case.algorithm = "somebody's".into();
        case.shortcuts = vec![Shortcut::NoPivoting, Shortcut::LessAccurate];
        let json = serde_json::to_string(&case).expect("JSON");
        assert!(json.contains(r#""shortcuts":["no-pivoting","less-accurate"]"#), "{json}");
        let read: Case = serde_json::from_str(&json).expect("a case");
        assert_eq!(Class::of(&read).to_string(), "(no pivoting, less accurate)");
        assert!(!Class::of(&read).is_exact());
        case.shortcuts = vec![];
        case.computes = Some(Computes { dtype: DType::F16, operations: 1 });
        assert_eq!(Class::of(&case).to_string(), "(f16 arithmetic)");
    }
}
