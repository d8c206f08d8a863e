//! Strips debug information, mostly the standard library's, from the shared object, which is embedded in every
//! `gpukern`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    }
}
