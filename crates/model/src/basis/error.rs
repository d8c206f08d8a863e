//! Error messages for the user, and exit codes.

use crate::basis::printable::{brief, excerpt};
use std::path::Path;
use std::process::ExitCode;

/// Exit code of the process; the values are part of the command-line interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success = 0,
    /// A result was rejected, or a comparison regressed.
    Rejected = 1,
    /// The command line, a configuration or a file from the user is wrong.
    Usage = 2,
    /// The device, its driver or the system failed.
    Failure = 3,
    /// A comparison is undecided: nothing regressed for certain, but not all cases are known to be unchanged.
    Undecided = 4,
    /// Interrupted; measurements so far are kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Error that ends a command. The message quotes the offending value and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user's request is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The device or the system failed: exit code 3.
    #[error("{0}")]
    Failure(String),
    /// Ctrl-C came before there were results to keep: exit code 130.
    #[error("interrupted before {0}")]
    Interrupted(&'static str),
}

impl Error {
    /// Returns the exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Failure(_) => Exit::Failure,
            Self::Interrupted(_) => Exit::Interrupted,
        }
    }
}

/// Returns the message for a name that is not in `known`, with all known names and the nearest one. `scope` names the
/// place of the search, such as ` for matmul`, or is empty.
pub fn unknown(what: &str, name: &str, scope: &str, known: &[&str]) -> String {
    let question = meant(name, known).map_or_else(String::new, |question| question + " ");
    format!("unknown {what} '{}'{scope}; {question}available: {}", brief(name), known.join(", "))
}

/// Says what is wrong in a TOML file; the text continues the name of the file: `:3: unknown field 'nmae'; did you mean …`.
pub fn toml_mistake(text: &str, error: &toml::de::Error) -> String {
    let line = line_number(text, error.span().map_or(0, |span| span.start));
    let message = error.message();
    // A mistake in the syntax names no field, so the line is shown.
    if toml::de::DeTable::parse(text).is_ok() {
        return format!(":{line}: {}", in_our_words(message));
    }
    let lesson = SYNTAX.iter().find(|(starts, _)| starts.iter().any(|start| message.starts_with(start)));
    let lesson = lesson.map_or_else(|| in_our_words(message), |(_, lesson)| (*lesson).into());
    let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
    if shown.is_empty() { format!(":{line}: {lesson}") } else { format!(":{line}: '{}': {lesson}", brief(shown)) }
}

/// Beginnings of the parser's messages, and what to write instead.
const SYNTAX: [(&[&str], &str); 9] = [
    (&["duplicate key"], "this name is in the file twice; keep one"),
    (&["key with no value", "invalid key-value pair"], "a line is NAME = VALUE, [TABLE] or # COMMENT"),
    (
        &[
            "string values must be quoted",
            "invalid boolean",
            "invalid float",
            "invalid integer",
            "unexpected leading zero",
        ],
        "a value is a number, true, false, text in quotes, a [list] or a { table }; a # begins a comment",
    ),
    (&["invalid basic string", "invalid literal string"], "text ends with the quote that it begins with: \"…\" or '…'"),
    (&["missing escaped value", "too few unicode"], "in \"…\" a backslash begins an escape; write '…', or / in a path"),
    (
        &["unclosed table", "unclosed array table"],
        "write a table's name in brackets: [NAME], or [[NAME]] for one of a list",
    ),
    (
        &["missing comma", "unclosed array", "unclosed inline table"],
        "a comma or the closing ] or } is missing, here or in the lines before",
    ),
    (&["missing assignment"], "write NAME = VALUE"),
    (&["unexpected key or value"], "nothing but a # comment may follow a value or a [TABLE] in its line"),
];

/// Returns the line, from 1, of an offset in bytes.
pub fn line_number(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Rewrites a message of serde's about names as [`unknown`] says it; others are only put on one line.
pub fn in_our_words(message: &str) -> String {
    let quoted: Vec<_> = message.split('`').skip(1).step_by(2).collect();
    match (&quoted[..], &message.split(' ').take(2).collect::<Vec<_>>()[..]) {
        ([name, known @ ..], ["unknown", what]) if !known.is_empty() => {
            unknown(if *what == "variant" { "value" } else { what }, name, "", known)
        }
        ([name], ["missing", "field"]) => format!("'{name}' is missing"),
        ([value], ["invalid", "type:"]) if message.ends_with("expected a string") => {
            format!("{value} has to be text in quotes, with its unit if it has one")
        }
        _ if message.starts_with("invalid type: map, expected a sequence") => {
            "this is a list of tables: write its name in double brackets, [[…]]".into()
        }
        _ => excerpt(message.trim()).replace('\n', "; "),
    }
}

/// Least similarity of a name that is suggested in place of another.
const MIN_SIMILARITY: f64 = 0.65;

/// Returns the question after the known name that is nearest to `name`: `did you mean 'tiled'?`
pub fn meant(name: &str, known: &[&str]) -> Option<String> {
    let name = &*brief(name);
    let candidates = known.iter().map(|candidate| (similarity(name, candidate), *candidate));
    let similar = candidates.filter(|(similarity, _)| *similarity > MIN_SIMILARITY);
    let (_, nearest) = similar.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("did you mean '{nearest}'?"))
}

/// Returns at most three names that resemble `pattern`, as a whole or in a hyphenated part, the nearest first.
pub fn nearest<'n>(pattern: &str, names: &[&'n str]) -> Vec<&'n str> {
    const MAX_SUGGESTIONS: usize = 3;
    let pattern = &*brief(pattern);
    let mut similar = vec![];
    for name in names {
        let mut greatest = similarity(pattern, name);
        for typed in pattern.split(['*', '-']).filter(|part| !part.is_empty()) {
            for part in name.split('-') {
                greatest = greatest.max(similarity(typed, part));
            }
        }
        if greatest > MIN_SIMILARITY {
            similar.push((greatest, *name));
        }
    }
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    similar.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Asks for the file in the folder of `path` whose name is nearest to the file's, if it ends in one of `endings`.
pub fn similar_file(path: &Path, endings: &[&str]) -> Option<String> {
    let folder = path.parent()?;
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let files = std::fs::read_dir(listed).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let parts = |path: &Path| Some((path.file_stem()?.to_str()?.to_string(), path.extension()?.to_str()?.to_string()));
    let (stem, ending) = parts(path)?;
    let known = files.filter_map(|name| parts(Path::new(&name)));
    let known: Vec<_> = known.filter(|(_, ending)| endings.contains(&&**ending)).collect();
    let question = |stem: &str, ending: &str| {
        format!("did you mean '{}'?", folder.join(format!("{stem}.{ending}")).to_string_lossy())
    };
    // The name may be right and its ending wrong.
    let same = known.iter().filter(|(own, _)| *own == stem);
    let likeness = |own: &str| strsim::normalized_damerau_levenshtein(&ending, own);
    if let Some((stem, ending)) = same.max_by(|(_, a), (_, b)| likeness(a).total_cmp(&likeness(b))) {
        return Some(question(stem, ending));
    }
    let stems: Vec<&str> = known.iter().filter(|(_, own)| *own == ending).map(|(stem, _)| &**stem).collect();
    Some(question(nearest(&stem, &stems).first()?, &ending))
}

/// Returns the similarity of two names, from 0 to 1, ignoring case: a common prefix counts like few typing errors. A name more
/// than twice as long as the other resembles it only if it begins with it: in `stop-check` anyone finds letters of `nope`.
fn similarity(typed: &str, known: &str) -> f64 {
    let [typed, known] = &[typed, known].map(str::to_lowercase);
    let [shorter, longer] = if typed.len() < known.len() { [typed, known] } else { [known, typed] };
    if longer.len() > 2 * shorter.len() && !longer.starts_with(shorter) {
        return 0.0;
    }
    let edits = strsim::normalized_damerau_levenshtein(typed, known);
    // Few people mistype the first letter, and words of the same letters in another order have little in common.
    if typed.chars().next() == known.chars().next() { edits.max(strsim::jaro_winkler(typed, known)) } else { edits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::printable::printable;

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest_known_one_and_a_strange_one_with_none() {
        let message = unknown("variant", "subgruop", " for matmul", &["naive", "local", "subgroup"]);
        assert_eq!(
            message,
            "unknown variant 'subgruop' for matmul; did you mean 'subgroup'? available: naive, local, subgroup"
        );
        let message = unknown("dtype", "F32", "", &["i32", "f32", "f16"]);
        assert_eq!(message, "unknown dtype 'F32'; did you mean 'f32'? available: i32, f32, f16");
        for (strange, known) in [("xyz", "naive"), ("nope", "stop-check"), ("foo", "coopmat")] {
            assert_eq!(
                unknown("variant", strange, "", &[known]),
                format!("unknown variant '{strange}'; available: {known}")
            );
        }
    }

    #[test]
    fn a_mistake_in_toml_is_told_like_others_with_its_line() {
        #[derive(Debug, serde::Deserialize)]
        #[allow(dead_code)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct TestFields {
            name: String,
            #[serde(default)]
            color: Option<TestColor>,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum TestColor {
            Always,
            Never,
        }
        for (text, expected) in [
            ("# a\nnmae = 'a'", ":2: unknown field 'nmae'; did you mean 'name'? available: name, color"),
            (
                "name = 'a'\ncolor = 'alway'",
                ":2: unknown value 'alway'; did you mean 'always'? available: always, never",
            ),
            ("color = 'always'", ":1: 'name' is missing"),
            ("name = 'a'\nname = 'b'", ":2: 'name = 'b'': this name is in the file twice; keep one"),
            ("name = 1", ":1: 1 has to be text in quotes, with its unit if it has one"),
            (
                "name = 'a' # \u{0}",
                ":1: 'name = 'a' # \\u{0}': invalid comment character, expected printable characters",
            ),
        ] {
            let error = toml::from_str::<TestFields>(text).expect_err(text);
            assert_eq!(toml_mistake(text, &error), expected, "{text}");
        }
        for (line, lesson) in [
            ("name = ", "a value is a number"),
            ("name = f32", "a value is a number"),
            ("name = 007", "a value is a number"),
            ("name = [1 2]", "a value is a number"),
            ("name", "a line is NAME = VALUE"),
            ("name 'a'", "a line is NAME = VALUE"),
            ("{name}", "a line is NAME = VALUE"),
            ("name = \"a", "text ends with the quote"),
            ("name = 'a", "text ends with the quote"),
            ("name = \"C:\\kernels\"", "in \"…\" a backslash begins an escape"),
            ("[a b]", "write a table's name in brackets"),
            ("[[a]", "write a table's name in brackets"),
            ("a = { b: 1 }", "write NAME = VALUE"),
            ("a = { b = 1", "a comma or the closing"),
            ("a = ['b' 'c']", "a comma or the closing"),
            ("a = 'b', 'c'", "nothing but a # comment"),
        ] {
            let text = format!("# a\n{line}\n");
            let error = toml::from_str::<TestFields>(&text).expect_err(line);
            let message = toml_mistake(&text, &error);
            assert!(message.starts_with(&format!(":2: '{}': {lesson}", printable(line.trim()))), "{line}: {message}");
        }
    }

    #[test]
    fn a_name_of_megabytes_is_answered_in_a_line() {
        let start = std::time::Instant::now();
        let message = unknown("algorithm", &"matmul".repeat(1_000_000), "", &["matmul"]);
        assert!(message.len() < 200 && start.elapsed().as_secs() < 1, "{message}");
    }
}
