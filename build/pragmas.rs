//! `#pragma` lines of a kernel's source: the kernels, element types and layouts to compile it for. A misspelt line is
//! an error, because ignoring it would compile the source for every type and layout.

use std::collections::BTreeMap;

/// Pragmas with a list of names, each with the permitted names.
const LISTS: [(&str, &[&str]); 3] = [
    ("dtypes", &["f32", "f64", "f16", "bf16", "i32", "i8", "u8"]),
    ("layouts", &["nn", "nt", "tn"]),
    ("vulkan", &["1.3"]),
];

/// Pragma that declares one of several kernels of a source.
const KERNEL: &str = "kernel";

/// Pragmas of GLSL itself, left to its compiler.
const GLSL: [&str; 3] = ["optimize", "debug", "STDGL"];

/// `#pragma` lines of a source.
#[derive(Debug, Default)]
pub(crate) struct Pragmas<'a> {
    /// Names listed by each of the [`LISTS`] pragmas that the source has.
    pub lists: BTreeMap<&'static str, Vec<&'a str>>,
    /// Kernels declared by `#pragma kernel` lines; empty for a source with one kernel, named after its file.
    pub kernels: Vec<KernelPragma<'a>>,
}

/// A line `#pragma kernel NAME MACRO… dtype…`.
#[derive(Debug, PartialEq)]
pub(crate) struct KernelPragma<'a> {
    pub name: &'a str,
    /// Macros defined for this kernel.
    pub macros: Vec<&'a str>,
    /// Element types that replace those of the `dtypes` line; empty to use that line.
    pub dtypes: Vec<&'a str>,
}

/// Reads the `#pragma` lines of the source with the path `shown`.
///
/// # Errors
/// File and line of a pragma that is unknown or repeated, lists nothing, or lists a name that is not permitted.
pub(crate) fn read<'a>(source: &'a str, shown: &str) -> Result<Pragmas<'a>, String> {
    let mut found = Pragmas::default();
    for (line, text) in (1..).zip(source.lines()) {
        let Some((pragma, names)) = pragma(text).filter(|(pragma, _)| !GLSL.contains(pragma)) else { continue };
        let place = |reason: String| format!("{shown}:{line}: {reason}");
        let names: Vec<_> = names.split_whitespace().collect();
        if let Some(twice) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(place(format!("'#pragma {pragma}' lists '{}' twice; leave one out", names[twice])));
        }
        if pragma == KERNEL {
            let kernel = KernelPragma::new(&names).map_err(place)?;
            if found.kernels.iter().any(|other| other.name == kernel.name) {
                return Err(place(format!("a second kernel '{}'; give it another name", kernel.name)));
            }
            found.kernels.push(kernel);
            continue;
        }
        let Some((pragma, known)) = LISTS.into_iter().find(|(known, _)| *known == pragma) else {
            let known: Vec<_> = LISTS.iter().map(|(known, _)| *known).chain([KERNEL]).chain(GLSL).collect();
            return Err(place(format!("unknown pragma '{pragma}'; known: {}", known.join(", "))));
        };
        let list = known.join(", ");
        if names.is_empty() {
            return Err(place(format!("'#pragma {pragma}' lists nothing; known: {list}")));
        }
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(place(format!("unknown name '{name}' of {pragma}; known: {list}")));
        }
        if found.lists.insert(pragma, names).is_some() {
            return Err(place(format!("a second '#pragma {pragma}'; put all names on one line")));
        }
    }
    Ok(found)
}

impl<'a> KernelPragma<'a> {
    fn new(words: &[&'a str]) -> Result<Self, String> {
        let Some((name, rest)) = words.split_first() else {
            return Err("'#pragma kernel' names no kernel; write a name, and the macros to define for it".into());
        };
        let (dtypes, macros): (Vec<_>, Vec<_>) = rest.iter().copied().partition(|word| LISTS[0].1.contains(word));
        let is_macro = |word: &str| {
            let known = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(known)
        };
        match macros.iter().find(|word| !is_macro(word)) {
            Some(word) => Err(format!(
                "'{word}' of kernel '{name}' is neither a macro, which is in capitals, nor an element type: {}",
                LISTS[0].1.join(", ")
            )),
            None => Ok(Self { name, macros, dtypes }),
        }
    }
}

/// Splits a `#pragma` line into the pragma's name and the rest; `None` for other lines.
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
    use super::{KernelPragma, read};

    #[test]
    fn pragmas_list_what_a_kernel_is_compiled_for_and_those_of_glsl_are_left_alone() {
        let source = "#version 460\n#pragma dtypes f32 bf16\n #  pragma layouts nt\n#pragma optimize(off)\n\
                      #pragma STDGL invariant(all)\n// #pragma dtype f32\n#pragmatic\nvoid main() {}\n";
        let found = read(source, "k.comp").expect("pragmas");
        assert_eq!(found.lists["dtypes"], ["f32", "bf16"]);
        assert_eq!(found.lists["layouts"], ["nt"]);
        assert_eq!((found.lists.len(), found.kernels.len()), (2, 0));
    }

    #[test]
    fn a_source_of_several_kernels_has_a_line_for_each_with_its_macros_and_types() {
        let source =
            "#pragma kernel sum\n#pragma kernel sum-texel TEXEL f32\n#pragma kernel sum-cas CAS WIDE_2 i32 i8\n";
        let kernels = read(source, "k.comp").expect("pragmas").kernels;
        let kernel =
            |name, macros: &[_], dtypes: &[_]| KernelPragma { name, macros: macros.into(), dtypes: dtypes.into() };
        let [texel, cas] =
            [kernel("sum-texel", &["TEXEL"], &["f32"]), kernel("sum-cas", &["CAS", "WIDE_2"], &["i32", "i8"])];
        assert_eq!(kernels, [kernel("sum", &[], &[]), texel, cas]);
    }

    #[test]
    fn a_slip_in_a_pragma_is_named_with_file_line_and_what_is_known() {
        let told = |line: &str| read(&format!("#version 460\n{line}\n"), "glsl/x/k.comp").expect_err("refused");
        let known = "known: dtypes, layouts, vulkan, kernel, optimize, debug, STDGL";
        assert_eq!(told("#pragma dtype f32"), format!("glsl/x/k.comp:2: unknown pragma 'dtype'; {known}"));
        assert_eq!(told("#pragma"), format!("glsl/x/k.comp:2: unknown pragma ''; {known}"));
        let nothing = "glsl/x/k.comp:2: '#pragma layouts' lists nothing; known: nn, nt, tn";
        assert_eq!([told("#pragma layouts"), told("#pragma layouts  ")], [nothing, nothing]);
        assert_eq!(told("#pragma vulkan 1.2"), "glsl/x/k.comp:2: unknown name '1.2' of vulkan; known: 1.3");
        assert!(told("#pragma dtypes f32 f32").ends_with("lists 'f32' twice; leave one out"));
        let twice = told("#pragma dtypes f32\n#pragma dtypes f64");
        assert_eq!(twice, "glsl/x/k.comp:3: a second '#pragma dtypes'; put all names on one line");
        assert!(told("#pragma kernel").contains(":2: '#pragma kernel' names no kernel; write a name"));
        assert!(told("#pragma kernel a\n#pragma kernel a B").ends_with("3: a second kernel 'a'; give it another name"));
        assert!(
            told("#pragma kernel a TEXEL f31").contains("'f31' of kernel 'a' is neither a macro, which is in capitals")
        );
    }
}
