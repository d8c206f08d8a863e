# How shaderc's C++ (glslang, SPIRV-Tools) is built. It only ever runs inside build.rs, on some dozens of small
# kernels, so its compile time matters more than its speed: no optimisation, no examples. The shaders
# come out the same; compiling one takes a few milliseconds more.
set(CMAKE_C_FLAGS_RELEASE "-O0 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O0 -DNDEBUG" CACHE STRING "")
set(SHADERC_SKIP_EXAMPLES ON CACHE BOOL "")
set(SHADERC_SKIP_COPYRIGHT_CHECK ON CACHE BOOL "")
