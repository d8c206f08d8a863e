//! Checks whether a user's SPIR-V file can replace a kernel, as far as that is possible without a driver, which would
//! trust the file. Results are verified as usual.

use crate::kernel::interface::{Argument, Interface};
use crate::kernel::shaders::Shader;
use std::fmt::Display;

/// Size limit of a SPIR-V file: some hundred times the largest built-in kernel.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Checks that `bytes` can run in place of `kernel`. The error message names the difference, and the remedy.
pub fn check(bytes: &[u8], kernel: &Shader) -> Result<(), String> {
    let interface = Interface::read(bytes)?;
    let expected = &kernel.interface;
    interface.check_slots()?;
    if interface.version > expected.version {
        let text = |[major, minor]: [u8; 2]| format!("{major}.{minor}");
        return Err(format!(
            "it is SPIR-V {}, but the kernel is {}; compile for that version, for example with --target-env",
            text(interface.version),
            text(expected.version)
        ));
    }
    let additional = interface.capabilities.iter().filter(|name| !expected.capabilities.contains(name));
    if let Some(names) = listed(additional) {
        return Err(format!(
            "it needs SPIR-V capabilities that the kernel does not need and the device may lack: {names}; remove them"
        ));
    }
    let has_constant = |id: u32| interface.constants.iter().any(|constant| constant.id == id);
    let ids = expected.constants.iter().map(|constant| constant.id);
    if let Some(missing) = listed(ids.filter(|id| !has_constant(*id))) {
        return Err(format!(
            "it lacks the kernel's specialization constants (constant_id {missing}); start from the source in glsl/"
        ));
    }
    // Each argument must lie where the kernel expects it. Names are ignored: a stripped file has none.
    for argument in interface.arguments.iter() {
        let is_same = |own: &Argument| own.offset == argument.offset && own.kind.in_words() == argument.kind.in_words();
        if !expected.arguments.iter().any(is_same) {
            return Err(format!(
                "it has an argument that the kernel lacks ('{}' at byte {} of the push constants); start from the \
                 source in glsl/",
                argument.name, argument.offset
            ));
        }
    }
    if let Some(names) = listed(interface.views().skip(expected.views().count())) {
        return Err(format!("it has texel views that the kernel lacks ({names}); start from the source in glsl/"));
    }
    Ok(())
}

/// Joins the items in one line; `None` if there are none.
fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> Option<String> {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { None } else { Some(items.join(", ")) }
}
