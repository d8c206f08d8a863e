//! Tables of published figures beside ours.

use super::table::{self, Sheet};
use crate::algorithms::{CaseOptions, Variant};
use crate::basis::printable::printable;
use crate::basis::units::{Nanos, significant};
use crate::plan::options::{Contains, Published};
use crate::plan::{Figures, PlannedRun, VariantChoice, axes};
use crate::record::{Case, Record};
use std::fmt::Write;

/// A table for each algorithm that `run` measured: our kernel and upload times, and for each source what it published
/// for the same size and variant. All in milliseconds, as the posts print them.
#[must_use]
pub(crate) fn text(record: &Record, run: &PlannedRun, width: usize) -> String {
    let mut out = String::from("published figures beside ours, in ms\n");
    for (number, Figures { source, .. }) in run.published.iter().enumerate() {
        let Published { source, device, contains, .. } = source;
        let contains = match contains {
            Contains::Kernel => "the kernel alone",
            Contains::UploadAndKernel => "upload and kernel",
            Contains::NotStated => "what is not stated",
        };
        let named = format!("  [{}] {}, {}: contains {contains}", number + 1, printable(source), printable(device));
        out.push_str(&table::prose(&named, width, 6));
    }
    let of_run = |case: &&Case| {
        run.groups.iter().any(|group| {
            let named = |variant: &Variant| *case.id == group.id(variant).to_string();
            let any = group.pick == VariantChoice::Auto && group.algorithm.variants.iter().any(&named);
            any || group.variants.iter().copied().any(named)
        })
    };
    for device in &record.devices {
        let cases: Vec<_> = record.cases.iter().filter(of_run).filter(|case| case.device == device.index).collect();
        if cases.is_empty() {
            continue;
        }
        let columns = (1..=run.published.len()).map(|number| format!("[{number}]"));
        let headings = ["algorithm", "size", "variant", "kernel", "upload", "together"].map(String::from);
        let mut sheet = Sheet::new(headings.into_iter().chain(columns), 3);
        for case in cases {
            let ours = case.measured().map_or_else(
                || [case.outcome.status().to_string(), String::new(), String::new()],
                |m| {
                    let (kernel, upload) = (m.summary.median, m.phases.upload);
                    [millis(kernel), millis(upload), millis(kernel + upload)]
                },
            );
            let name = [case.algorithm.clone(), case.size.to_string(), case.variant.clone()];
            let theirs = run.published.iter().map(|figures| figure(figures, case));
            sheet.add(name.into_iter().chain(ours).chain(theirs));
        }
        let _ = write!(out, "\nours on device {}: {}\n\n{}", device.index, device.name, sheet.text(width));
    }
    out
}

fn millis(time: Nanos) -> String {
    significant(time.0 * 1e-6)
}

/// What was published of the case, as printed there.
fn figure(figures: &Figures, case: &Case) -> String {
    // Nobody published a product of operands that are stored transposed, or a solution.
    let usual = CaseOptions { input: case.input, ..CaseOptions::new(figures.algorithm, figures.dtype) };
    let same =
        case.algorithm == figures.algorithm.name && axes::same(&case.options, &usual, |separates| separates.tables);
    let found = case.size.known().filter(|_| same).and_then(|size| figures.of(&case.variant, size));
    found.map_or_else(|| "–".into(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::bench::tests::record;
    use super::*;
    use crate::algorithms::Goal;
    use crate::basis::layout::Layout;
    use crate::plan::Purpose;
    use crate::plan::options::{Config, Selection};

    #[test]
    fn upload_and_kernel_are_apart_and_each_source_says_what_its_figures_contain() {
        let config: Config = toml::from_str(
            "[[bench]]\nalgorithm = 'matmul'\nvariant = ['naive', 'local']\nsize = 64\n\
             [[bench.published]]\nsource = 'a post'\ndevice = 'a card'\ncontains = 'upload-and-kernel'\n\
             milliseconds = { local = { 64 = 1.5 } }",
        )
        .expect("a configuration");
        let [selection]: [Selection; 1] = config.bench.try_into().expect("one table");
        let run = PlannedRun::new(&selection, Purpose::Bench).expect("a plan");
        insta::assert_snapshot!(text(&record(), &run, 80));
    }

    #[test]
    fn figures_stand_beside_their_own_algorithm_type_size_and_variant_alone() {
        let run = |text: &str| {
            let config: Config = toml::from_str(text).expect("a configuration");
            let [selection]: [Selection; 1] = config.bench.try_into().expect("one table");
            PlannedRun::new(&selection, Purpose::Bench)
        };
        let table = |axes: &str, of: &str| {
            run(&format!(
                "[[bench]]\n{axes}\nvariant = 'naive'\nsize = '64'\n[[bench.published]]\nsource = 'a post'\n\
                 device = 'a card'\ncontains = 'kernel'\n{of}\nmilliseconds = {{ naive = {{ 64 = 1.5 }} }}"
            ))
        };
        let both = "algorithm = ['matmul', 'lu']\ndtype = ['f32']";
        let published = table(both, "algorithm = 'matmul'").expect("a plan");
        let case = record().cases.remove(0);
        let shown = |case: &Case| figure(&published.published[0], case);
        assert_eq!(shown(&case), "1.5");
        assert_eq!(shown(&Case { size: "64x64x64".into(), ..case.clone() }), "1.5");
        let others = [
            Case { algorithm: "lu".into(), ..case.clone() },
            Case { options: CaseOptions { dtype: crate::basis::dtype::DType::F64, ..case.options }, ..case.clone() },
            Case { options: CaseOptions { layout: Layout::Nt, ..case.options }, ..case.clone() },
            Case { size: "65".into(), ..case.clone() },
            Case { options: CaseOptions { goal: Goal::Solution, ..case.options }, ..case.clone() },
            Case { variant: "local".into(), ..case },
        ];
        for other in &others {
            assert_eq!(shown(other), "–", "{other:?}");
        }
        let error = |axes: &str, of: &str| table(axes, of).expect_err("a mistake");
        assert!(error(both, "").ends_with("several algorithms; write algorithm = 'matmul' beside the figures"));
        let types = error("algorithm = 'matmul'\ndtype = ['f32', 'f64']", "");
        assert!(types.ends_with("several element types; write dtype = 'f32' beside the figures"), "{types}");
        assert!(error(both, "algorithm = 'matmull'").contains("did you mean 'matmul'?"));
    }
}
