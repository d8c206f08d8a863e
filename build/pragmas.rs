//! The `#pragma` lines of a kernel, which say what it is compiled for. A slip in one is an error: a line that nobody reads
//! would leave a kernel compiled for everything.

use std::collections::BTreeMap;

/// The pragmas that are read here, each with the names that it may list.
const KNOWN: [(&str, &[&str]); 3] = [
    ("dtypes", &["f32", "f64", "f16", "bf16", "i32", "i8", "u8"]),
    ("layouts", &["nn", "nt", "tn"]),
    ("vulkan", &["1.3"]),
];

/// The pragmas of GLSL itself, which are for its compiler.
const GLSL: [&str; 3] = ["optimize", "debug", "STDGL"];

/// The names that each pragma of the source `shown` lists.
///
/// # Errors
/// File and line of a pragma that nobody knows, that is there twice or lists nothing, or of a name that it may not list.
pub(crate) fn read<'a>(source: &'a str, shown: &str) -> Result<BTreeMap<&'static str, Vec<&'a str>>, String> {
    let mut found = BTreeMap::new();
    for (line, text) in (1..).zip(source.lines()) {
        let Some((pragma, names)) = pragma(text).filter(|(pragma, _)| !GLSL.contains(pragma)) else { continue };
        let place = format!("{shown}:{line}");
        let Some((pragma, known)) = KNOWN.into_iter().find(|(known, _)| *known == pragma) else {
            let known: Vec<_> = KNOWN.iter().map(|(known, _)| *known).chain(GLSL).collect();
            return Err(format!("{place}: unknown pragma '{pragma}'; known: {}", known.join(", ")));
        };
        let names: Vec<_> = names.split_whitespace().collect();
        let list = known.join(", ");
        if names.is_empty() {
            return Err(format!("{place}: '#pragma {pragma}' lists nothing; known: {list}"));
        }
        for (at, name) in names.iter().enumerate() {
            if !known.contains(name) {
                return Err(format!("{place}: unknown name '{name}' of {pragma}; known: {list}"));
            }
            if names[..at].contains(name) {
                return Err(format!("{place}: '#pragma {pragma}' lists '{name}' twice; leave one out"));
            }
        }
        if found.insert(pragma, names).is_some() {
            return Err(format!("{place}: a second '#pragma {pragma}'; put all names on one line"));
        }
    }
    Ok(found)
}

/// The word after `#pragma` and what follows it, if `line` is such a line.
fn pragma(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("pragma")?;
    let text = rest.trim_start();
    if !rest.is_empty() && text.len() == rest.len() {
        return None;
    }
    Some(text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn pragmas_list_what_a_kernel_is_compiled_for_and_those_of_glsl_are_left_alone() {
        let source = "#version 460\n#pragma dtypes f32 bf16\n #  pragma layouts nt\n#pragma optimize(off)\n\
                      #pragma STDGL invariant(all)\n// #pragma dtype f32\n#pragmatic\nvoid main() {}\n";
        let found = read(source, "k.comp").expect("pragmas");
        assert_eq!(found["dtypes"], ["f32", "bf16"]);
        assert_eq!(found["layouts"], ["nt"]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_slip_in_a_pragma_is_named_with_file_line_and_what_is_known() {
        let told = |line: &str| read(&format!("#version 460\n{line}\n"), "glsl/x/k.comp").expect_err("refused");
        let known = "known: dtypes, layouts, vulkan, optimize, debug, STDGL";
        assert_eq!(told("#pragma dtype f32"), format!("glsl/x/k.comp:2: unknown pragma 'dtype'; {known}"));
        assert_eq!(told("#pragma"), format!("glsl/x/k.comp:2: unknown pragma ''; {known}"));
        let nothing = "glsl/x/k.comp:2: '#pragma layouts' lists nothing; known: nn, nt, tn";
        assert_eq!([told("#pragma layouts"), told("#pragma layouts  ")], [nothing, nothing]);
        assert_eq!(told("#pragma vulkan 1.2"), "glsl/x/k.comp:2: unknown name '1.2' of vulkan; known: 1.3");
        assert!(told("#pragma dtypes f32 f32").ends_with("lists 'f32' twice; leave one out"));
        let twice = told("#pragma dtypes f32\n#pragma dtypes f64");
        assert_eq!(twice, "glsl/x/k.comp:3: a second '#pragma dtypes'; put all names on one line");
    }
}
