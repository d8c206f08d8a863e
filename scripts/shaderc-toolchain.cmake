# How shaderc's C++ (glslang, SPIRV-Tools) is built: for build.rs alone, which compiles some dozens of small kernels, so
# what counts is the time to build it, not its speed. The shaders come out the same.
#
# Most of that time goes into SPIRV-Tools' optimiser, which nothing here runs, and into parsing the same headers again and
# again. Two documented hooks of CMake mend both without touching shaderc's sources: variables that its projects read,
# and CMAKE_PROJECT_<name>_INCLUDE, a file that runs at the end of project(<name>). A target that a later version of
# shaderc renames is left as it is: the build is slower, not broken.
set(CMAKE_C_FLAGS_RELEASE "-O0 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O0 -DNDEBUG" CACHE STRING "")
set(SHADERC_SKIP_EXAMPLES ON CACHE BOOL "")
set(SHADERC_SKIP_COPYRIGHT_CHECK ON CACHE BOOL "")
set(SKIP_SPIRV_TOOLS_INSTALL ON CACHE BOOL "")
set(ENABLE_OPT OFF CACHE BOOL "")  # glslang's own calls of the optimiser, which shaderc turns off
set(CMAKE_PROJECT_spirv-tools_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/spirv-tools.cmake")
set(CMAKE_PROJECT_shaderc_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/shaderc.cmake")
# Who has a toolchain file says for which system, too: cargo names the target in the environment.
if("$ENV{TARGET}" STREQUAL "x86_64-pc-windows-gnu" AND NOT CMAKE_HOST_WIN32)
    set(CMAKE_SYSTEM_NAME Windows)
    set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc)
    set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++)
endif()
