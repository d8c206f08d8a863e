//! Keeps the shared object of the layer, which cargo built as a dependency of this program, for the crate to include.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("layer"), layer(&out).unwrap_or_default()).expect("OUT_DIR can be written");
}

/// Returns the layer's shared object, which cargo built as a dependency of this program. `None` in a cross-build, whose
/// layer is for the host, or if the file is missing; `gpukern capture` then reports that it has no layer.
fn layer(out: &Path) -> Option<Vec<u8>> {
    if env::var("HOST") != env::var("TARGET") {
        return None;
    }
    // OUT_DIR is build/gpukern-…/out, in the folder that also has deps.
    let name = format!("{}gpukern_layer{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    fs::read(out.ancestors().nth(3)?.join("deps").join(name)).ok()
}
