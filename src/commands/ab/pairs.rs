//! Pairs of variants: each judged variant with its baseline.

use crate::algorithms::AUTO;
use crate::basis::pattern::{self, captures, filled, is_pattern};
use crate::{Algorithm, CATALOGUE, Variant};

/// Baseline A and judged variant B.
pub(super) type Pair = [&'static Variant; 2];

/// Returns the pairs that two lists of names and patterns select. Adds a note for each pattern that leaves variants without a
/// partner. Lists pair in order; a single name pairs with every name of the other list.
pub(super) fn pairs(
    algorithm: &'static Algorithm,
    baselines: &[String],
    candidates: &[String],
    notes: &mut Vec<String>,
) -> Result<Vec<Pair>, String> {
    let count = match (baselines.len(), candidates.len()) {
        (a, b) if a == b || b == 1 => a,
        (1, b) => b,
        (a, b) => return Err(format!("-V names {b} and --against {a}; name as many, or one for all")),
    };
    let mut pairs: Vec<Pair> = vec![];
    for index in 0..count {
        let [baseline, candidate] = [baselines, candidates].map(|names| names[index.min(names.len() - 1)].as_str());
        for [a, b] in pairs_of(algorithm, baseline, candidate, notes)? {
            if !pairs.iter().any(|known| std::ptr::eq(known[0], a) && std::ptr::eq(known[1], b)) {
                pairs.push([a, b]);
            }
        }
    }
    Ok(pairs)
}

/// Refuses `auto` among the names of variants, which is no side of its own.
pub(super) fn refuse_auto(names: &[impl AsRef<str>]) -> Result<(), String> {
    if names.iter().all(|name| name.as_ref() != AUTO) {
        return Ok(());
    }
    Err(format!(
        "'{AUTO}' stands for another variant in each case; name that one: `gpukern bench -V auto --explain` tells which it is"
    ))
}

fn pairs_of(
    algorithm: &'static Algorithm,
    baseline: &str,
    candidate: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Pair>, String> {
    refuse_auto(&[baseline, candidate])?;
    let baselines = matching_variants(algorithm, baseline)?;
    let candidates = matching_variants(algorithm, candidate)?;
    let [baseline_stars, candidate_stars] = [baseline, candidate].map(|text| text.matches('*').count());
    if baseline_stars > 0 && candidate_stars > 0 {
        if baseline_stars != candidate_stars {
            return Err(format!(
                "'{candidate}' and '{baseline}' pair variants by what `*` stands for; write as many in both"
            ));
        }
        return pairs_by_stars(baseline, candidate, &baselines, &candidates, notes);
    }
    // Two names may be the same; a pattern never pairs a variant with itself.
    let two_names = baseline_stars == 0 && candidate_stars == 0;
    let mut pairs = vec![];
    for b in candidates {
        for a in &baselines {
            if two_names || !std::ptr::eq(*a, b) {
                pairs.push([*a, b]);
            }
        }
    }
    if pairs.is_empty() {
        return Err(format!("'{candidate}' and '{baseline}' are the same variant; name two, or one by its name twice"));
    }
    Ok(pairs)
}

/// Returns the variants of `algorithm` that a name or pattern selects.
fn matching_variants(algorithm: &'static Algorithm, text: &str) -> Result<Vec<&'static Variant>, String> {
    if !is_pattern(text) {
        return Ok(vec![CATALOGUE.variant(algorithm, text)?]);
    }
    let names: Vec<_> = algorithm.variants.iter().map(|variant| &*variant.name).collect();
    let kind = format!("variant of {}", algorithm.name);
    pattern::select(text, &kind, &names)?.into_iter().map(|name| algorithm.variant(name)).collect()
}

/// Returns the pairs whose names match two patterns with the same text in place of each `*`.
fn pairs_by_stars(
    baseline: &str,
    candidate: &str,
    baselines: &[&'static Variant],
    candidates: &[&'static Variant],
    notes: &mut Vec<String>,
) -> Result<Vec<Pair>, String> {
    let names = |variants: &[&Variant]| variants.iter().map(|variant| &*variant.name).collect::<Vec<_>>().join(", ");
    let mut pairs = vec![];
    let mut without_partner = vec![];
    for b in candidates {
        let partner_name = captures(candidate, &b.name).map(|texts| filled(baseline, &texts));
        // A pattern never pairs a variant with itself.
        let partner = baselines.iter().find(|a| a.name != b.name && Some(&*a.name) == partner_name.as_deref());
        match partner {
            Some(a) => pairs.push([*a, *b]),
            None => without_partner.push(*b),
        }
    }
    if pairs.is_empty() {
        return Err(format!(
            "`*` stands for nothing alike in '{candidate}' ({}) and '{baseline}' ({})",
            names(candidates),
            names(baselines)
        ));
    }
    if !without_partner.is_empty() {
        notes.push(format!("no partner among '{baseline}': {}", names(&without_partner)));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the pairs that two lists, separated by commas, select.
    fn named_pairs(
        algorithm: &str,
        baselines: &str,
        candidates: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<String>, String> {
        let algorithm = CATALOGUE.find(algorithm).expect("an algorithm");
        let names = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
        let pairs = pairs(algorithm, &names(baselines), &names(candidates), notes)?;
        Ok(pairs.iter().map(|[a, b]| format!("{} {}", a.name, b.name)).collect())
    }

    #[test]
    fn names_pair_in_order_and_patterns_with_all_other_matches() {
        for (baselines, candidates, expected) in [
            ("naive", "local,tiled", Ok("naive local, naive tiled")),
            ("naive,local", "tiled", Ok("naive tiled, local tiled")),
            ("naive,local", "local,tiled", Ok("naive local, local tiled")),
            // A variant against itself is a fair question.
            ("v0", "naive", Ok("naive naive")),
            ("local", "local*", Ok("local local-2d")),
            ("tile-*", "naive", Ok("tile-1d naive, tile-2d naive")),
            ("naive,local", "tiled,texel,v2", Err("-V names 3 and --against 2; name as many, or one for all")),
            ("blocked", "tiled", Err("'blocked' is a variant of lu, not of matmul; name lu before -V, or a ")),
            ("auto", "tiled", Err("'auto' stands for another variant in each case; name that one: ")),
            ("texel", "texe*", Err("'texe*' and 'texel' are the same variant")),
            ("naive", "*-subgruop", Err("no variant of matmul matches '*-subgruop'; nearest: subgroup")),
        ] {
            match (named_pairs("matmul", baselines, candidates, &mut vec![]), expected) {
                (Ok(pairs), Ok(expected)) => assert_eq!(pairs.join(", "), expected),
                (Err(error), Err(start)) => assert!(error.starts_with(start), "{error}"),
                (other, _) => panic!("{baselines} {candidates}: {other:?}"),
            }
        }
    }

    #[test]
    fn patterns_pair_what_the_star_stands_for() {
        let mut notes = vec![];
        let pairs = named_pairs("collectives", "*-shared", "*-subgroup", &mut notes).expect("pairs");
        assert!(pairs.contains(&"broadcast-shared broadcast-subgroup".to_string()), "{pairs:?}");
        let operation = |name: &str, form: &str| name.strip_suffix(form).map(str::to_string);
        for pair in &pairs {
            let (a, b) = pair.split_once(' ').expect("two");
            assert!(operation(a, "-shared").is_some_and(|own| operation(b, "-subgroup") == Some(own)), "{pair}");
        }
        // The empty loop has no other form.
        assert!(notes[0].starts_with("no partner among '*-shared': nothing-subgroup"), "{notes:?}");
        let error = named_pairs("matmul", "*-2d", "tile-*", &mut notes).expect_err("1d-2d");
        assert!(error.starts_with("`*` stands for nothing alike in 'tile-*' ("), "{error}");
        let error = named_pairs("collectives", "*-*", "*-subgroup", &mut notes).expect_err("two and one");
        assert_eq!(error, "'*-subgroup' and '*-*' pair variants by what `*` stands for; write as many in both");
    }
}
