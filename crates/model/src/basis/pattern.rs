//! Name patterns, in which `*` matches any text, and abbreviations of the ids of cases.

use super::error::nearest;
use super::printable::brief;
use std::collections::{BTreeMap, BTreeSet};

/// Whether `name` contains a star.
pub fn is_pattern(name: &str) -> bool {
    name.contains('*')
}

/// Returns the texts that the stars of `pattern` match, earlier ones as short as possible; `None` without a match.
pub fn captures<'t>(pattern: &str, text: &'t str) -> Option<Vec<&'t str>> {
    let mut parts = pattern.split('*');
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut parts: Vec<_> = parts.collect();
    // Without a star, the pattern must equal the text.
    let Some(last) = parts.pop() else { return rest.is_empty().then(Vec::new) };
    let mut captures = vec![];
    for part in parts {
        // The first match is enough: a later one would only shorten the rest.
        let (before, after) = rest.split_at(rest.find(part)?);
        captures.push(before);
        rest = &after[part.len()..];
    }
    captures.push(rest.strip_suffix(last)?);
    Some(captures)
}

pub fn matches(pattern: &str, text: &str) -> bool {
    captures(pattern, text).is_some()
}

/// Whether `name` is an id of a case with some of its words left out: `saxpy/65536` of `saxpy/saxpy/f32/65536`.
pub fn abbreviates(name: &str, id: &str) -> bool {
    let mut words = id.split('/');
    name.split('/').all(|part| words.any(|word| word == part))
}

/// Sets of words of an id to keep, besides those from the size on: algorithm, variant and element type are 0, 1 and 2.
const KEPT_WORDS: [&[usize]; 6] = [&[0], &[1], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];

/// Abbreviates ids of cases, all of an algorithm in the same way, to the shortest names that distinguish them and name the
/// variant. A variant
/// replaces the algorithm only if it begins with its name, as a user's kernel does: `softmax[LANES=64]/64x1024`. The
/// element type is left out only if all have the same.
pub fn short_ids(ids: &[&str]) -> Vec<String> {
    let abbreviate = |id: &str, kept: &[usize]| -> String {
        let words: Vec<_> = id.split('/').enumerate().collect();
        let kept = words.iter().filter(|(index, _)| *index > 2 || kept.contains(index));
        kept.map(|(_, word)| *word).collect::<Vec<_>>().join("/")
    };
    let types: BTreeSet<_> = ids.iter().map(|id| id.split('/').nth(2)).collect();
    let mut kept_words: BTreeMap<&str, &[usize]> = BTreeMap::new();
    for id in ids {
        let algorithm = id.split('/').next().unwrap_or_default();
        kept_words.entry(algorithm).or_insert_with(|| {
            let of_algorithm = ids.iter().filter(|id| id.split('/').next() == Some(algorithm));
            let distinct: BTreeSet<_> = of_algorithm.copied().collect();
            let is_usable = |kept: &&&[usize]| {
                let names: BTreeSet<_> = distinct.iter().map(|id| abbreviate(id, kept)).collect();
                // A variant is what most readers look for; that of a user's kernel may be called as its problem is.
                let keeps_variant = kept.contains(&1)
                    || distinct.iter().all(|id| id.split('/').nth(1).is_some_and(|variant| variant == algorithm));
                let keeps_algorithm = kept.contains(&0)
                    || distinct
                        .iter()
                        .all(|id| id.split('/').nth(1).is_some_and(|variant| variant.starts_with(algorithm)));
                names.len() == distinct.len()
                    && keeps_variant
                    && keeps_algorithm
                    && (types.len() == 1 || kept.contains(&2))
            };
            KEPT_WORDS.iter().find(is_usable).copied().unwrap_or(&[0, 1, 2])
        });
    }
    ids.iter().map(|id| abbreviate(id, kept_words[id.split('/').next().unwrap_or_default()])).collect()
}

/// Replaces the stars of `pattern` by `captures`, of which there must be as many.
pub fn filled(pattern: &str, captures: &[&str]) -> String {
    let mut parts = pattern.split('*');
    let mut text = parts.next().unwrap_or_default().to_string();
    for (part, capture) in parts.zip(captures) {
        text.push_str(capture);
        text.push_str(part);
    }
    text
}

/// Returns the names that match `pattern`, or a message with the nearest ones. A kernel's name stands for all its choices of
/// constants: `sum` for `sum[LANES=64]`. `kind` is, say, `variant of matmul`.
pub fn select<'n>(pattern: &str, kind: &str, names: &[&'n str]) -> Result<Vec<&'n str>, String> {
    let mut matching: Vec<_> = names.iter().copied().filter(|name| matches(pattern, name)).collect();
    if matching.is_empty() {
        let is_choice = |name: &&str| name.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('['));
        matching = names.iter().copied().filter(is_choice).collect();
    }
    if matching.is_empty() { Err(no_match(pattern, kind, names)) } else { Ok(matching) }
}

/// Returns the message for a pattern that matches no name.
pub fn no_match(pattern: &str, kind: &str, names: &[&str]) -> String {
    let nearest = nearest(pattern, names);
    let nearest = if nearest.is_empty() { String::new() } else { format!("nearest: {}; ", nearest.join(", ")) };
    format!("no {kind} matches '{}'; {nearest}available: {}", brief(pattern), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_name_stands_for_its_choices_unless_one_is_called_so() {
        let names = ["sum[N=1]", "sum[N=2]", "sum2[N=1]", "max"];
        assert_eq!(select("sum", "kernel", &names), Ok(vec!["sum[N=1]", "sum[N=2]"]));
        assert_eq!(select("max", "kernel", &names), Ok(vec!["max"]));
        assert!(select("su", "kernel", &names).is_err());
    }

    #[test]
    fn short_ids_distinguish_cases_and_abbreviate_their_ids() {
        let check = |ids: &[&str], expected: &[&str]| {
            let names = short_ids(ids);
            assert_eq!(names, expected);
            for (at, name) in names.iter().enumerate() {
                let named: Vec<_> = ids.iter().filter(|id| abbreviates(name, id)).collect();
                assert_eq!(named, [&ids[at]], "{name}");
            }
        };
        check(&["saxpy/saxpy/f32/65536"], &["saxpy/65536"]);
        check(&["saxpy/saxpy/f32/64", "lu/naive/f32/64/solve"], &["saxpy/64", "lu/naive/64/solve"]);
        let choices = ["k/k[N=1]/f32/8", "k/k[N=2]/f32/8", "lu/a/f32/8", "lu/b/f32/8"];
        check(&choices, &["k[N=1]/8", "k[N=2]/8", "lu/a/8", "lu/b/8"]);
        check(&["lu/a/f32/8", "lu/a/f64/8"], &["lu/a/f32/8", "lu/a/f64/8"]);
        check(&["lu/a/f32/8", "lu/a/f64/8", "lu/b/f32/8"], &["lu/a/f32/8", "lu/a/f64/8", "lu/b/f32/8"]);
        assert!(!abbreviates("65536/saxpy", "saxpy/saxpy/f32/65536") && !abbreviates("lu/9", "lu/a/f32/8"));
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("*", "", Some(&[""][..])),
            ("matmul/*", "matmul/naive/f32/8x8x8", Some(&["naive/f32/8x8x8"])),
            ("*/f32/*", "matmul/naive/f32/8x8x8", Some(&["matmul/naive", "8x8x8"])),
            ("matmul/naive", "matmul/naive", Some(&[])),
            ("matmul/naive", "matmul/naive/f32", None),
            ("*ab", "aab", Some(&["a"])),
            ("a*a", "a", None),
            ("a*b*a", "abba", Some(&["", "b"])),
            ("a*b*c", "acb", None),
        ] {
            assert_eq!(captures(pattern, text).as_deref(), expected, "{pattern} {text}");
            if let Some(captures) = expected {
                assert_eq!(filled(pattern, captures), text);
            }
        }
        // The number of stars must not matter.
        assert!(!matches(&"*a".repeat(1000), &"a".repeat(999)) && matches(&"*".repeat(1000), "a"));
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_answered_with_the_nearest_names() {
        let names = ["reduce-subgroup", "reduce-shared", "scan-subgroup", "barrier-workgroup"];
        assert_eq!(select("reduce-*", "variant of collectives", &names), Ok(vec!["reduce-subgroup", "reduce-shared"]));
        let message = select("*-subgruop", "variant of collectives", &names).expect_err("none");
        let expected = "no variant of collectives matches '*-subgruop'; nearest: reduce-subgroup, scan-subgroup";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.ends_with("; available: reduce-subgroup, reduce-shared, scan-subgroup, barrier-workgroup"));
        let message = select("zzz*", "variant of matmul", &["naive", "local"]).expect_err("none");
        assert_eq!(message, "no variant of matmul matches 'zzz*'; available: naive, local");
    }
}
