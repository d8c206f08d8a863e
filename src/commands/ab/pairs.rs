//! Pairs of variants: each judged variant with its baseline.

use crate::algorithms::{Algorithm, Variant};
use crate::basis::pattern::{self, captures, filled, is_pattern};
use crate::kernels::CATALOGUE;
use crate::plan::AUTO;

/// Baseline A and judged variant B.
pub(super) type Pair = [&'static Variant; 2];

/// Returns the pairs that two lists of names and patterns select, and a note for each pattern that leaves variants without a
/// partner. Lists pair in order; a single name pairs with every name of the other list.
///
/// # Errors
/// If the lists differ in length, or a name or pattern matches nothing.
pub(super) fn pairs(
    algorithm: &'static Algorithm,
    against: &[String],
    judged: &[String],
) -> Result<(Vec<Pair>, Vec<String>), String> {
    let count = match (against.len(), judged.len()) {
        (a, b) if a == b || b == 1 => a,
        (1, b) => b,
        (a, b) => return Err(format!("-V names {b} and --against {a}; name as many, or one for all")),
    };
    let (mut found, mut notes): (Vec<Pair>, _) = (vec![], vec![]);
    for at in 0..count {
        let [a, b] = [against, judged].map(|names| names[at.min(names.len() - 1)].as_str());
        for pair in pairs_of(algorithm, a, b, &mut notes)? {
            let same = |other: &Pair| (0..2).all(|side| std::ptr::eq(other[side], pair[side]));
            if !found.iter().any(same) {
                found.push(pair);
            }
        }
    }
    Ok((found, notes))
}

/// Returns the pairs of two names or patterns.
fn pairs_of(
    algorithm: &'static Algorithm,
    against: &str,
    judged: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Pair>, String> {
    if let Some(auto) = [against, judged].into_iter().find(|name| *name == AUTO) {
        return Err(format!(
            "'{auto}' is a choice, not a variant; `gpukern bench -V auto --explain` names what it takes"
        ));
    }
    let names: Vec<_> = algorithm.variants.iter().map(|variant| &*variant.name).collect();
    let matching = |typed: &str| {
        let kind = format!("variant of {}", algorithm.name);
        if !is_pattern(typed) {
            return Ok(vec![CATALOGUE.variant(algorithm, typed)?]);
        }
        pattern::select(typed, &kind, &names)?.into_iter().map(|name| algorithm.variant(name)).collect()
    };
    let [all_against, all_judged]: [Vec<&'static Variant>; 2] = [matching(against)?, matching(judged)?];
    let stars = [against, judged].map(|typed| typed.matches('*').count());
    if stars[0] > 0 && stars[1] > 0 {
        if stars[0] != stars[1] {
            return Err(format!(
                "'{judged}' and '{against}' pair variants by what `*` stands for; write as many in both"
            ));
        }
        return pairs_by_stars(against, judged, &all_against, &all_judged, notes);
    }
    let all = all_judged.iter().flat_map(|b| all_against.iter().map(|a| [*a, *b]));
    // A pattern never pairs a variant with itself.
    let pairs: Vec<_> = all.filter(|[a, b]| stars == [0, 0] || !std::ptr::eq(*a, *b)).collect();
    if pairs.is_empty() {
        return Err(format!("'{judged}' and '{against}' are the same variant; name two, or one by its name twice"));
    }
    Ok(pairs)
}

/// Returns the pairs whose names match two patterns with the same text in place of each `*`.
fn pairs_by_stars(
    against: &str,
    judged: &str,
    all_against: &[&'static Variant],
    all_judged: &[&'static Variant],
    notes: &mut Vec<String>,
) -> Result<Vec<Pair>, String> {
    let partner = |b: &&'static Variant| {
        let wanted = filled(against, &captures(judged, &b.name)?);
        // A pattern never pairs a variant with itself.
        all_against.iter().find(|a| a.name == wanted && a.name != b.name).map(|a| [*a, *b])
    };
    let (with, without): (Vec<_>, Vec<_>) =
        all_judged.iter().map(|b| (b, partner(b))).partition(|(_, pair)| pair.is_some());
    let names = |all: &[&Variant]| all.iter().map(|variant| &*variant.name).collect::<Vec<_>>().join(", ");
    if with.is_empty() {
        return Err(format!(
            "`*` stands for nothing alike in '{judged}' ({}) and '{against}' ({})",
            names(all_judged),
            names(all_against)
        ));
    }
    if !without.is_empty() {
        let without: Vec<_> = without.into_iter().map(|(b, _)| *b).collect();
        notes.push(format!("no partner among '{against}': {}", names(&without)));
    }
    Ok(with.into_iter().filter_map(|(_, pair)| pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(algorithm: &str, against: &[&str], judged: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        let algorithm = CATALOGUE.find(algorithm).expect("an algorithm");
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (pairs, notes) = pairs(algorithm, &texts(against), &texts(judged))?;
        Ok((pairs.iter().map(|[a, b]| format!("{} {}", a.name, b.name)).collect(), notes))
    }

    #[test]
    fn lists_pair_in_order_and_one_stands_beside_each() {
        let pairs = |against: &[&str], judged: &[&str]| found("matmul", against, judged).expect("pairs").0;
        assert_eq!(pairs(&["naive"], &["local", "tiled"]), ["naive local", "naive tiled"]);
        assert_eq!(pairs(&["naive", "local"], &["tiled"]), ["naive tiled", "local tiled"]);
        assert_eq!(pairs(&["naive", "local"], &["local", "tiled"]), ["naive local", "local tiled"]);
        assert_eq!(pairs(&["v0"], &["naive"]), ["naive naive"], "a variant against itself is a fair question");
        let error = found("matmul", &["naive", "local"], &["tiled", "texel", "v2"]).expect_err("3 and 2");
        assert_eq!(error, "-V names 3 and --against 2; name as many, or one for all");
        let error = found("matmul", &["blocked"], &["tiled"]).expect_err("lu's");
        assert!(error.starts_with("'blocked' is a variant of lu, not of matmul, which has: naive, "), "{error}");
        let error = found("matmul", &["auto"], &["tiled"]).expect_err("a choice");
        assert_eq!(error, "'auto' is a choice, not a variant; `gpukern bench -V auto --explain` names what it takes");
    }

    #[test]
    fn a_pattern_pairs_a_name_with_all_other_matches() {
        let pairs = |against: &str, judged: &str| found("matmul", &[against], &[judged]).expect("pairs").0;
        assert_eq!(pairs("local", "local*"), ["local local-2d"]);
        assert_eq!(pairs("tile-*", "naive"), ["tile-1d naive", "tile-2d naive"]);
        let error = found("matmul", &["texel"], &["texe*"]).expect_err("itself");
        assert!(error.starts_with("'texe*' and 'texel' are the same variant"), "{error}");
        let error = found("matmul", &["naive"], &["*-subgruop"]).expect_err("none");
        assert!(error.starts_with("no variant of matmul matches '*-subgruop'; nearest: subgroup"), "{error}");
    }

    #[test]
    fn patterns_pair_what_the_star_stands_for() {
        let (pairs, notes) = found("collectives", &["*-shared"], &["*-subgroup"]).expect("pairs");
        assert!(pairs.contains(&"broadcast-shared broadcast-subgroup".to_string()), "{pairs:?}");
        let operation = |name: &str, form: &str| name.strip_suffix(form).map(str::to_string);
        for pair in &pairs {
            let (a, b) = pair.split_once(' ').expect("two");
            assert!(operation(a, "-shared").is_some_and(|own| operation(b, "-subgroup") == Some(own)), "{pair}");
        }
        // The empty loop has no other form.
        assert!(notes[0].starts_with("no partner among '*-shared': nothing-subgroup"), "{notes:?}");
        let error = found("matmul", &["*-2d"], &["tile-*"]).map(|(pairs, _)| pairs);
        assert_eq!(error.expect_err("1d-2d").split(" (").next(), Some("`*` stands for nothing alike in 'tile-*'"));
        let error = found("collectives", &["*-*"], &["*-subgroup"]).expect_err("two and one");
        assert_eq!(error, "'*-subgroup' and '*-*' pair variants by what `*` stands for; write as many in both");
    }
}
