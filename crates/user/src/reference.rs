//! Resolves the reference: files, programs, and built-in algorithms.

use super::description::{Described, Description, Fault, OutputFiles};
use super::expression::Values;
use super::resolved::{Builtin, Fill, Reference, ResolvedBuffer, ShellCommand, size_of};
use crate::algorithms::CaseSpec;
use crate::algorithms::catalogue::Catalogue;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::layout::Layout;
use crate::basis::printable::brief;
use crate::kernel::buffer::BufferSpec;

/// Lists the kinds of reference that a description states.
fn stated(description: &Description) -> Vec<&'static str> {
    let Some(reference) = &description.reference else { return vec![] };
    let kinds = [
        ("builtin", reference.builtin.is_some()),
        ("kernel", !reference.kernel.values().is_empty()),
        ("file", reference.file.is_some()),
        ("command", reference.command.is_some()),
    ];
    kinds.into_iter().filter(|(_, there)| *there).map(|(kind, _)| kind).collect()
}

/// Refuses another kind of reference in addition to a kernel.
pub(crate) fn only_kernel(description: &Description) -> Result<(), Fault> {
    match stated(description).as_slice() {
        [] | [_] => Ok(()),
        several => Err(several_kinds(several)),
    }
}

fn several_kinds(kinds: &[&str]) -> Fault {
    Fault::new("reference", format!("states {}; keep one of them", kinds.join(" and ")))
}

/// Resolves the reference at a point, unless it is a kernel.
pub(crate) fn reference(
    catalogue: &Catalogue,
    described: &Described,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Reference, Fault> {
    let Some(reference) = &described.description.reference else { return Ok(Reference::None) };
    match stated(&described.description).as_slice() {
        [] => Err(Fault::new("reference", "is empty; write one of builtin, kernel, file and command")),
        ["builtin"] => builtin(catalogue, &described.description, buffers, scope).map(Reference::Builtin),
        ["file"] => {
            let files = reference.file.as_ref().map(|files| files_of(described, files, buffers, scope));
            Ok(Reference::Files(files.transpose()?.unwrap_or_default()))
        }
        ["command"] => {
            let line = scope.replace(reference.command.as_deref().unwrap_or_default());
            if !line.contains("{out}") {
                let message = format!(
                    "'{}' has no {{out}}, the folder into which it writes <output>.npy; an example is 'python3 ref.py {{in}} \
                     {{out}}'",
                    brief(&line)
                );
                return Err(Fault::new("reference.command", message));
            }
            Ok(Reference::Command(ShellCommand { line, folder: described.folder.clone() }))
        }
        several => Err(several_kinds(several)),
    }
}

/// Resolves the file of each output.
fn files_of(
    described: &Described,
    files: &OutputFiles,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Vec<(usize, Fill)>, Fault> {
    let outputs: Vec<usize> = (0..buffers.len()).filter(|place| buffers[*place].role.is_output()).collect();
    let names: Vec<&str> = outputs.iter().map(|place| buffers[*place].name.as_str()).collect();
    let file = |field: &str, place: usize, name: &str| {
        let (buffer, path) = (&buffers[place], described.path(&scope.replace(name)));
        let fault = |message: String| Fault::new(field, message);
        let neither = || fault(format!("'{name}' is no .npy, .bin or .bin.zst; name it after what it is"));
        let file = Fill::file(path).ok_or_else(neither)?;
        file.check(buffer.element, &buffer.shape).map_err(fault)?;
        Ok((place, file))
    };
    match files {
        OutputFiles::One(name) => match outputs.as_slice() {
            [only] => Ok(vec![file("reference.file", *only, name)?]),
            _ => Err(Fault::new(
                "reference.file",
                format!("is one file, but outputs are {}; write file = {{ {} = \"…\" }}", names.join(", "), names[0]),
            )),
        },
        OutputFiles::Each(files) => {
            if let Some(unknown) = files.names().into_iter().find(|name| !names.contains(name)) {
                let field = format!("reference.file.{unknown}");
                return Err(Fault::new(field, error::unknown("output", unknown, "", &names)));
            }
            if let Some(missing) = names.iter().find(|name| files.get(name).is_none()) {
                return Err(Fault::new("reference.file", format!("has no file for output {missing}; add one")));
            }
            let each = outputs.iter().filter_map(|place| Some((*place, files.get(&buffers[*place].name)?)));
            each.map(|(place, name)| file("reference.file", place, name)).collect()
        }
    }
}

/// Resolves a built-in algorithm, and finds the buffers for its roles.
fn builtin(
    catalogue: &Catalogue,
    description: &Description,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Builtin, Fault> {
    let reference = description.reference.clone().unwrap_or_default();
    let name = reference.builtin.unwrap_or_default();
    let algorithm = catalogue.find(&name).map_err(|e| Fault::new("reference.builtin", e))?;
    let Some(stated) = &reference.size else {
        let message = format!("is missing; state the extents of {name}, as in [\"M\", \"N\", \"K\"]");
        return Err(Fault::new("reference.size", message));
    };
    let fault = |message: String| Fault::new("reference.size", message);
    let mut size = vec![];
    for formula in stated.values() {
        let value = formula.expression().and_then(|e| e.value(scope)).map_err(fault)?;
        size.push(
            u64::try_from(value)
                .ok()
                .filter(|value| *value > 0)
                .ok_or_else(|| fault(format!("has the extent {value} ('{formula}'); an extent is 1 or more")))?,
        );
    }
    let Some(typed) = size_of(&size) else {
        return Err(fault(format!("has {} extents; an algorithm has 1 to 3", size.len())));
    };
    let layout = reference.layout.as_deref().map(|text| {
        let found = algorithm.layouts.iter().find(|layout| layout.name() == text).copied();
        let known: Vec<&str> = algorithm.layouts.iter().map(|layout| layout.name()).collect();
        found.ok_or_else(|| Fault::new("reference.layout", error::unknown("layout", text, "", &known)))
    });
    let layout: Option<Layout> = layout.transpose()?;
    let roles = |dtype: DType| -> Result<Vec<(String, usize)>, Fault> {
        let case = CaseSpec::new(algorithm, typed, dtype)
            .with(|options| options.layout = layout.unwrap_or(algorithm.layouts[0]));
        let problem = (algorithm.problem)(&case).map_err(fault)?;
        let specs = problem.buffers();
        let known: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
        if let Some(unknown) = reference.roles.names().into_iter().find(|role| !known.contains(role)) {
            let field = format!("reference.roles.{unknown}");
            return Err(Fault::new(field, error::unknown("buffer", unknown, &format!(" of {name}"), &known)));
        }
        specs.iter().map(|spec| role(spec, &reference.roles, buffers)).collect()
    };
    // The element type of the algorithm is that of its first buffer.
    let mut refused = None;
    for dtype in algorithm.dtypes(crate::case::Goal::Result) {
        match roles(dtype) {
            Ok(roles) => {
                let layout = layout.map(|layout| layout.name().to_string());
                return Ok(Builtin { algorithm: name, size, layout, roles });
            }
            Err(fault) => refused = refused.or(Some(fault)),
        }
    }
    Err(refused.unwrap_or_else(|| Fault::new("reference.builtin", format!("{name} has no element type"))))
}

/// Finds the buffer that plays the role of `spec`.
fn role(
    spec: &BufferSpec,
    roles: &super::description::OrderedMap<String>,
    buffers: &[ResolvedBuffer],
) -> Result<(String, usize), Fault> {
    let name = roles.get(&spec.name).map_or(&*spec.name, String::as_str);
    let field = format!("reference.roles.{}", spec.name);
    let known: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    let Some(place) = buffers.iter().position(|buffer| buffer.name == name) else {
        return Err(Fault::new(field, error::unknown("buffer", name, "", &known)));
    };
    let buffer = &buffers[place];
    if buffer.element != spec.dtype || buffer.len() != spec.len {
        return Err(Fault::new(
            field,
            format!(
                "is {name} of {} elements of {}, but the part takes {} of {}; make them the same",
                buffer.len(),
                buffer.element,
                spec.len,
                spec.dtype
            ),
        ));
    }
    Ok((spec.name.to_string(), place))
}
