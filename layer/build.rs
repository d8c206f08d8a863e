//! Leaves the standard library's debug information out of the shared object, which every `gpukern` carries.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    }
}
