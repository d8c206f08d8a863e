//! Kernels for tests.

/// Compiles GLSL to SPIR-V.
pub(crate) fn spirv(glsl: &str) -> Vec<u32> {
    let compiler = shaderc::Compiler::new().expect("a compiler");
    let mut options = shaderc::CompileOptions::new().expect("options");
    options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_2 as u32);
    let kind = shaderc::ShaderKind::Compute;
    let made = compiler.compile_into_spirv(glsl, kind, "k.comp", "main", Some(&options)).expect("it compiles");
    made.as_binary().to_vec()
}
