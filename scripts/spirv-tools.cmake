# Runs inside project(spirv-tools), see shaderc-toolchain.cmake. Its targets do not exist yet, so the work is deferred to
# the end of that directory. A target that a later version renames is left as it is: the build is slower, not broken.
if(COMMAND cmake_language AND NOT CMAKE_VERSION VERSION_LESS 3.19)
    function(gpukern_trim_spirv_tools)
        # Libraries that shaderc does not link.
        foreach(target SPIRV-Tools-shared SPIRV-Tools-reduce SPIRV-Tools-link SPIRV-Tools-lint SPIRV-Tools-diff)
            if(TARGET ${target})
                set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
            endif()
        endforeach()
        # The headers that nearly every file of these libraries includes, parsed once.
        if(TARGET SPIRV-Tools-opt)
            target_precompile_headers(SPIRV-Tools-opt PRIVATE "${spirv-tools_SOURCE_DIR}/source/opt/ir_context.h")
        endif()
        if(TARGET SPIRV-Tools-static)
            target_precompile_headers(SPIRV-Tools-static PRIVATE "${spirv-tools_SOURCE_DIR}/source/val/validation_state.h")
        endif()
    endfunction()
    cmake_language(DEFER DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" CALL gpukern_trim_spirv_tools)
endif()
