//! Resolves the reference: files, programs, and built-in algorithms.

use super::description::{Described, Description, Fault, OrderedMap, OutputFiles, ReferenceTable};
use super::expression::Values;
use super::resolved::{Builtin, Fill, Reference, ResolvedBuffer, ShellCommand, size_of};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::error;
use crate::basis::layout::Layout;
use crate::basis::printable::brief;
use crate::basis::size::Size;
use crate::case::Goal;
use crate::kernel::buffer::BufferSpec;

/// Returns the only kind of reference that a description states; `None` without any. Refuses several.
pub(super) fn kind(description: &Description) -> Result<Option<&'static str>, Fault> {
    let Some(reference) = &description.reference else { return Ok(None) };
    let kinds = [
        ("builtin", reference.builtin.is_some()),
        ("kernel", !reference.kernel.values().is_empty()),
        ("file", reference.file.is_some()),
        ("command", reference.command.is_some()),
    ];
    let stated: Vec<&str> = kinds.into_iter().filter(|(_, is_stated)| *is_stated).map(|(kind, _)| kind).collect();
    match stated[..] {
        [] => Err(Fault::new("reference", "is empty; write one of builtin, kernel, file and command")),
        [kind] => Ok(Some(kind)),
        _ => Err(Fault::new("reference", format!("states {}; keep one of them", stated.join(" and ")))),
    }
}

/// Resolves the reference at a point, unless it is a kernel.
pub(crate) fn reference(
    catalogue: &Catalogue,
    described: &Described,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Reference, Fault> {
    let Some(reference) = &described.description.reference else { return Ok(Reference::None) };
    if kind(&described.description)? == Some("builtin") {
        return resolve_builtin(catalogue, reference, buffers, scope).map(Reference::Builtin);
    }
    if let Some(files) = &reference.file {
        return resolve_files(described, files, buffers, scope).map(Reference::Files);
    }
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

/// Resolves the file of each output, with the index of its buffer.
fn resolve_files(
    described: &Described,
    files: &OutputFiles,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Vec<(usize, Fill)>, Fault> {
    let outputs: Vec<(usize, &ResolvedBuffer)> =
        buffers.iter().enumerate().filter(|(_, buffer)| buffer.role.is_output()).collect();
    let names: Vec<&str> = outputs.iter().map(|(_, buffer)| buffer.name.as_str()).collect();
    let fault = |message: String| Fault::new("reference.file", message);
    let mut resolved = vec![];
    for (index, buffer) in outputs {
        let name = match files {
            OutputFiles::One(name) if names.len() == 1 => name,
            OutputFiles::One(_) => {
                let message = format!(
                    "is one file, but outputs are {}; write file = {{ {} = \"…\" }}",
                    names.join(", "),
                    names[0]
                );
                return Err(fault(message));
            }
            OutputFiles::Each(files) => {
                if let Some(unknown) = files.names().into_iter().find(|name| !names.contains(name)) {
                    let field = format!("reference.file.{unknown}");
                    return Err(Fault::new(field, error::unknown("output", unknown, "", &names)));
                }
                if let Some(missing) = names.iter().find(|name| files.get(name).is_none()) {
                    return Err(fault(format!("has no file for output {missing}; add one")));
                }
                files.get(&buffer.name).map_or("", String::as_str)
            }
        };
        let unknown = || fault(format!("'{name}' is no .npy, .bin or .bin.zst; name it after what it is"));
        let file = Fill::file(described.path(&scope.replace(name))).ok_or_else(unknown)?;
        file.check(buffer).map_err(fault)?;
        resolved.push((index, file));
    }
    Ok(resolved)
}

/// Resolves a built-in algorithm, and finds the buffers for its roles.
fn resolve_builtin(
    catalogue: &Catalogue,
    reference: &ReferenceTable,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Builtin, Fault> {
    let name = reference.builtin.as_deref().unwrap_or_default();
    let algorithm = catalogue.find(name).map_err(|e| Fault::new("reference.builtin", e))?;
    let fault = |message: String| Fault::new("reference.size", message);
    let Some(formulas) = &reference.size else {
        let takes = |size| {
            algorithm
                .dtypes(Goal::Result)
                .any(|dtype| (algorithm.problem)(&CaseSpec::new(algorithm, size, dtype)).is_ok())
        };
        let example = match (takes(Size::Three(2, 3, 4)), takes(Size::Two(2, 3))) {
            (true, _) => "[\"M\", \"N\", \"K\"]",
            (_, true) => "[\"M\", \"N\"]",
            _ => "[\"N\"]",
        };
        return Err(fault(format!("is missing; state the extents of {name}, as in {example}")));
    };
    let mut extents = vec![];
    for formula in formulas.values() {
        let value = formula.expression().and_then(|e| e.value(scope)).map_err(fault)?;
        if value < 1 {
            return Err(fault(format!("has the extent {value} ('{formula}'); an extent is 1 or more")));
        }
        extents.push(value.cast_unsigned());
    }
    let Some(size) = size_of(&extents) else {
        return Err(fault(format!("has {} extents; an algorithm has 1 to 3", extents.len())));
    };
    let layout = match &reference.layout {
        Some(name) => find_layout(algorithm, name)?,
        None => algorithm.layouts[0],
    };
    // The algorithm's element type is not stated: the first in which the buffers fit its roles counts.
    let mut first_fault = None;
    for dtype in algorithm.dtypes(Goal::Result) {
        let case = CaseSpec::new(algorithm, size, dtype).with(|options| options.layout = layout);
        let problem = (algorithm.problem)(&case).map_err(fault);
        match problem.and_then(|problem| find_roles(&problem.buffers(), name, &reference.roles, buffers)) {
            Ok(roles) => {
                let layout = reference.layout.clone();
                return Ok(Builtin { algorithm: name.into(), size: extents, layout, roles });
            }
            Err(fault) => first_fault = first_fault.or(Some(fault)),
        }
    }
    Err(first_fault.unwrap_or_else(|| Fault::new("reference.builtin", format!("{name} has no element type"))))
}

fn find_layout(algorithm: &Algorithm, name: &str) -> Result<Layout, Fault> {
    let names: Vec<&str> = algorithm.layouts.iter().map(|layout| layout.name()).collect();
    let index = names.iter().position(|known| *known == name);
    let unknown = || Fault::new("reference.layout", error::unknown("layout", name, "", &names));
    index.map(|index| algorithm.layouts[index]).ok_or_else(unknown)
}

/// Finds the buffer for each role of `algorithm`; `specs` are the roles, by name.
fn find_roles(
    specs: &[BufferSpec],
    algorithm: &str,
    roles: &OrderedMap<String>,
    buffers: &[ResolvedBuffer],
) -> Result<Vec<(String, usize)>, Fault> {
    let known: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
    if let Some(unknown) = roles.names().into_iter().find(|role| !known.contains(role)) {
        let field = format!("reference.roles.{unknown}");
        if let Some(role) = roles.get(unknown).filter(|role| known.contains(&role.as_str())) {
            let turned = format!("is a buffer of this kernel; the algorithm's comes first: {role} = \"{unknown}\"");
            return Err(Fault::new(field, turned));
        }
        return Err(Fault::new(field, error::unknown("buffer", unknown, &format!(" of {algorithm}"), &known)));
    }
    let mut found = vec![];
    for spec in specs {
        found.push((spec.name.to_string(), find_role(spec, roles, buffers)?));
    }
    Ok(found)
}

/// Finds the buffer that plays the role of `spec`, and checks that it fits.
fn find_role(spec: &BufferSpec, roles: &OrderedMap<String>, buffers: &[ResolvedBuffer]) -> Result<usize, Fault> {
    let name = roles.get(&spec.name).map_or(&*spec.name, String::as_str);
    let fault = |message: String| Fault::new(format!("reference.roles.{}", spec.name), message);
    let Some(index) = buffers.iter().position(|buffer| buffer.name == name) else {
        let names: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
        if roles.get(&spec.name).is_none() {
            return Err(fault(format!(
                "is missing: no buffer here is called {name}; say which one it is: roles = {{ {name} = \"…\" }}; available: {}",
                names.join(", ")
            )));
        }
        return Err(fault(error::unknown("buffer", name, "", &names)));
    };
    let buffer = &buffers[index];
    if buffer.element != spec.dtype || buffer.len() != spec.len {
        return Err(fault(format!(
            "is {name} of {} elements of {}, but the part takes {} of {}; make them the same",
            buffer.len(),
            buffer.element,
            spec.len,
            spec.dtype
        )));
    }
    Ok(index)
}
