//! Checks whether a user's SPIR-V file can replace a kernel, as far as that is possible without a driver, which would
//! trust the file. Results are verified as usual.

use crate::kernel::interface::Interface;
use crate::kernel::shaders::Shader;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Size limit of a SPIR-V file: some hundred times the largest built-in kernel.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Checks that `bytes` can run in place of `kernel`. The error message names the difference from `kernel`, and the
/// remedy.
pub fn check(bytes: &[u8], kernel: &Shader) -> Result<(), String> {
    let found = Interface::read(bytes)?;
    let expected = &kernel.interface;
    found.has_built_in_slots()?;
    if found.version > expected.version {
        let text = |[major, minor]: [u8; 2]| format!("{major}.{minor}");
        return Err(format!(
            "it is SPIR-V {}, but the kernel is {}; compile for that version, for example with --target-env",
            text(found.version),
            text(expected.version)
        ));
    }
    let more = found.capabilities.iter().filter(|name| !expected.capabilities.contains(name));
    if let Some(more) = listed(more) {
        return Err(format!(
            "it needs SPIR-V capabilities that the kernel does not need and the device may lack: {more}; remove them"
        ));
    }
    if let Some(missing) = listed(constants(expected).difference(&constants(&found))) {
        return Err(format!(
            "it lacks the kernel's specialization constants (constant_id {missing}); start from the source in glsl/"
        ));
    }
    // Each argument must lie where the kernel expects it. Names are ignored: a stripped file has none.
    let mut arguments = found.arguments.iter();
    let foreign = arguments.find(|argument| {
        !expected
            .arguments
            .iter()
            .any(|other| (other.offset, other.kind.in_words()) == (argument.offset, argument.kind.in_words()))
    });
    if let Some(argument) = foreign {
        return Err(format!(
            "it has an argument that the kernel lacks ('{}' at byte {} of the push constants); start from the source \
             in glsl/",
            argument.name, argument.offset
        ));
    }
    if let Some(more) = listed(found.views().skip(expected.views().count())) {
        return Err(format!("it has texel views that the kernel lacks ({more}); start from the source in glsl/"));
    }
    Ok(())
}

/// Returns the ids of the specialization constants.
fn constants(interface: &Interface) -> BTreeSet<u32> {
    interface.constants.iter().map(|constant| constant.id).collect()
}

/// Joins the items in one line; `None` if there are none.
fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> Option<String> {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    (!items.is_empty()).then(|| items.join(", "))
}
