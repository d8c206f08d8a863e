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
    let mut pragmas = Pragmas::default();
    for (line, text) in (1..).zip(source.lines()) {
        if let Some((pragma, rest)) = split_pragma(text) {
            let names = rest.split_whitespace().collect();
            pragmas.add(pragma, names).map_err(|reason| format!("{shown}:{line}: {reason}"))?;
        }
    }
    Ok(pragmas)
}

impl<'a> Pragmas<'a> {
    /// Adds a pragma that lists `names`, unless it is one of GLSL's own.
    fn add(&mut self, pragma: &str, names: Vec<&'a str>) -> Result<(), String> {
        if GLSL.contains(&pragma) {
            return Ok(());
        }
        if let Some(index) = (1..names.len()).find(|index| names[..*index].contains(&names[*index])) {
            return Err(format!("'#pragma {pragma}' lists '{}' twice; leave one out", names[index]));
        }
        if pragma == KERNEL {
            let kernel = KernelPragma::new(&names)?;
            if self.kernels.iter().any(|other| other.name == kernel.name) {
                return Err(format!("a second kernel '{}'; give it another name", kernel.name));
            }
            self.kernels.push(kernel);
            return Ok(());
        }
        let Some((pragma, permitted)) = LISTS.into_iter().find(|(list, _)| *list == pragma) else {
            let pragmas: Vec<_> = LISTS.iter().map(|(list, _)| *list).chain([KERNEL]).chain(GLSL).collect();
            return Err(format!("unknown pragma '{pragma}'; known: {}", pragmas.join(", ")));
        };
        let known = permitted.join(", ");
        if names.is_empty() {
            return Err(format!("'#pragma {pragma}' lists nothing; known: {known}"));
        }
        if let Some(name) = names.iter().find(|name| !permitted.contains(name)) {
            return Err(format!("unknown name '{name}' of {pragma}; known: {known}"));
        }
        if self.lists.insert(pragma, names).is_some() {
            return Err(format!("a second '#pragma {pragma}'; put all names on one line"));
        }
        Ok(())
    }
}

impl<'a> KernelPragma<'a> {
    /// Reads the words of a `#pragma kernel` line: a name, then macros and element types in any order.
    fn new(words: &[&'a str]) -> Result<Self, String> {
        let Some((name, rest)) = words.split_first() else {
            return Err("'#pragma kernel' names no kernel; write a name, and the macros to define for it".into());
        };
        let (_, permitted) = LISTS[0];
        let (dtypes, macros): (Vec<_>, Vec<_>) = rest.iter().copied().partition(|word| permitted.contains(word));
        if let Some(word) = macros.iter().find(|word| !is_macro(word)) {
            return Err(format!(
                "'{word}' of kernel '{name}' is neither a macro, which is in capitals, nor an element type: {}",
                permitted.join(", ")
            ));
        }
        Ok(Self { name, macros, dtypes })
    }
}

/// Whether `word` begins with a capital and consists of capitals, digits and underscores.
fn is_macro(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Splits a `#pragma` line into the pragma's name and the rest; `None` for other lines.
fn split_pragma(line: &str) -> Option<(&str, &str)> {
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
        let pragmas = read(source, "k.comp").expect("pragmas");
        assert_eq!(pragmas.lists["dtypes"], ["f32", "bf16"]);
        assert_eq!(pragmas.lists["layouts"], ["nt"]);
        assert_eq!((pragmas.lists.len(), pragmas.kernels.len()), (2, 0));
    }

    #[test]
    fn a_source_of_several_kernels_has_a_line_for_each_with_its_macros_and_types() {
        let source =
            "#pragma kernel sum\n#pragma kernel sum-texel TEXEL f32\n#pragma kernel sum-cas CAS WIDE_2 i32 i8\n";
        let kernels = read(source, "k.comp").expect("pragmas").kernels;
        let kernel =
            |name, macros: &[_], dtypes: &[_]| KernelPragma { name, macros: macros.into(), dtypes: dtypes.into() };
        let texel = kernel("sum-texel", &["TEXEL"], &["f32"]);
        let cas = kernel("sum-cas", &["CAS", "WIDE_2"], &["i32", "i8"]);
        assert_eq!(kernels, [kernel("sum", &[], &[]), texel, cas]);
    }

    #[test]
    fn a_slip_in_a_pragma_is_named_with_file_line_and_what_is_known() {
        let error = |line: &str| read(&format!("#version 460\n{line}\n"), "glsl/x/k.comp").expect_err("refused");
        let known = "known: dtypes, layouts, vulkan, kernel, optimize, debug, STDGL";
        assert_eq!(error("#pragma dtype f32"), format!("glsl/x/k.comp:2: unknown pragma 'dtype'; {known}"));
        assert_eq!(error("#pragma"), format!("glsl/x/k.comp:2: unknown pragma ''; {known}"));
        let nothing = "glsl/x/k.comp:2: '#pragma layouts' lists nothing; known: nn, nt, tn";
        assert_eq!([error("#pragma layouts"), error("#pragma layouts  ")], [nothing, nothing]);
        assert_eq!(error("#pragma vulkan 1.2"), "glsl/x/k.comp:2: unknown name '1.2' of vulkan; known: 1.3");
        assert!(error("#pragma dtypes f32 f32").ends_with("lists 'f32' twice; leave one out"));
        let twice = error("#pragma dtypes f32\n#pragma dtypes f64");
        assert_eq!(twice, "glsl/x/k.comp:3: a second '#pragma dtypes'; put all names on one line");
        assert!(error("#pragma kernel").contains(":2: '#pragma kernel' names no kernel; write a name"));
        assert!(
            error("#pragma kernel a\n#pragma kernel a B").ends_with("3: a second kernel 'a'; give it another name")
        );
        assert!(
            error("#pragma kernel a TEXEL f31")
                .contains("'f31' of kernel 'a' is neither a macro, which is in capitals")
        );
    }
}
