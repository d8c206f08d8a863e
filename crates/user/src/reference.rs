//! Resolves the reference: files, programs, and built-in algorithms.

use super::description::{Described, Description, Fault, OrderedMap, OutputFiles, ReferenceTable};
use super::expression::Values;
use super::resolved::{Builtin, Fill, Reference, ResolvedBuffer, ShellCommand, size_of};
use crate::algorithms::CaseSpec;
use crate::algorithms::catalogue::Catalogue;
use crate::basis::dtype::DType;
use crate::basis::error;
use crate::basis::layout::Layout;
use crate::basis::printable::brief;
use crate::kernel::buffer::BufferSpec;

/// Returns the only kind of reference that a description states; `None` without any. Refuses several.
pub(super) fn kind(description: &Description) -> Result<Option<&'static str>, Fault> {
    let Some(reference) = &description.reference else { return Ok(None) };
    let mut kinds = vec![];
    for (kind, is_stated) in [
        ("builtin", reference.builtin.is_some()),
        ("kernel", !reference.kernel.values().is_empty()),
        ("file", reference.file.is_some()),
        ("command", reference.command.is_some()),
    ] {
        if is_stated {
            kinds.push(kind);
        }
    }
    match kinds[..] {
        [] => Err(Fault::new("reference", "is empty; write one of builtin, kernel, file and command")),
        [kind] => Ok(Some(kind)),
        _ => Err(Fault::new("reference", format!("states {}; keep one of them", kinds.join(" and ")))),
    }
}

/// Resolves the reference at a point, unless it is a kernel.
pub(crate) fn reference(
    catalogue: &Catalogue,
    described: &Described,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Reference, Fault> {
    let (Some(kind), Some(reference)) = (kind(&described.description)?, &described.description.reference) else {
        return Ok(Reference::None);
    };
    if kind == "builtin" {
        return builtin(catalogue, reference, buffers, scope).map(Reference::Builtin);
    }
    if let Some(files) = &reference.file {
        return files_of(described, files, buffers, scope).map(Reference::Files);
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

/// Resolves the file of each output.
fn files_of(
    described: &Described,
    files: &OutputFiles,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Vec<(usize, Fill)>, Fault> {
    let outputs: Vec<usize> = (0..buffers.len()).filter(|place| buffers[*place].role.is_output()).collect();
    let names: Vec<&str> = outputs.iter().map(|place| buffers[*place].name.as_str()).collect();
    let fault = |message: String| Fault::new("reference.file", message);
    let mut found = vec![];
    for place in outputs {
        let buffer = &buffers[place];
        let name = match files {
            OutputFiles::One(name) if names.len() == 1 => name,
            OutputFiles::One(_) => {
                let (all, first) = (names.join(", "), names[0]);
                return Err(fault(format!("is one file, but outputs are {all}; write file = {{ {first} = \"…\" }}")));
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
        let neither = || fault(format!("'{name}' is no .npy, .bin or .bin.zst; name it after what it is"));
        let file = Fill::file(described.path(&scope.replace(name))).ok_or_else(neither)?;
        file.check(buffer.element, &buffer.shape).map_err(fault)?;
        found.push((place, file));
    }
    Ok(found)
}

/// Resolves a built-in algorithm, and finds the buffers for its roles.
fn builtin(
    catalogue: &Catalogue,
    reference: &ReferenceTable,
    buffers: &[ResolvedBuffer],
    scope: &Values,
) -> Result<Builtin, Fault> {
    let name = reference.builtin.as_deref().unwrap_or_default();
    let algorithm = catalogue.find(name).map_err(|e| Fault::new("reference.builtin", e))?;
    let Some(stated) = &reference.size else {
        let message = format!("is missing; state the extents of {name}, as in [\"M\", \"N\", \"K\"]");
        return Err(Fault::new("reference.size", message));
    };
    let fault = |message: String| Fault::new("reference.size", message);
    let mut size = vec![];
    for formula in stated.values() {
        let value = formula.expression().and_then(|e| e.value(scope)).map_err(fault)?;
        if value < 1 {
            return Err(fault(format!("has the extent {value} ('{formula}'); an extent is 1 or more")));
        }
        size.push(value.cast_unsigned());
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
                return Ok(Builtin { algorithm: name.into(), size, layout, roles });
            }
            Err(fault) => refused = refused.or(Some(fault)),
        }
    }
    Err(refused.unwrap_or_else(|| Fault::new("reference.builtin", format!("{name} has no element type"))))
}

/// Finds the buffer that plays the role of `spec`.
fn role(spec: &BufferSpec, roles: &OrderedMap<String>, buffers: &[ResolvedBuffer]) -> Result<(String, usize), Fault> {
    let name = roles.get(&spec.name).map_or(&*spec.name, String::as_str);
    let field = format!("reference.roles.{}", spec.name);
    let known: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    let Some(place) = buffers.iter().position(|buffer| buffer.name == name) else {
        return Err(Fault::new(field, error::unknown("buffer", name, "", &known)));
    };
    let buffer = &buffers[place];
    if buffer.element != spec.dtype || buffer.len() != spec.len {
        let (len, element, BufferSpec { len: taken, dtype, .. }) = (buffer.len(), buffer.element, spec);
        let message = format!(
            "is {name} of {len} elements of {element}, but the part takes {taken} of {dtype}; make them the same"
        );
        return Err(Fault::new(field, message));
    }
    Ok((spec.name.to_string(), place))
}
