# Runs inside project(spirv-tools), see shaderc-toolchain.cmake. Its targets do not exist yet, so the work is deferred to
# the end of that directory.
if(COMMAND cmake_language AND NOT CMAKE_VERSION VERSION_LESS 3.19)
    function(gpukern_trim_spirv_tools)
        # Libraries that shaderc does not link.
        foreach(target SPIRV-Tools-shared SPIRV-Tools-reduce SPIRV-Tools-link SPIRV-Tools-lint SPIRV-Tools-diff)
            if(TARGET ${target})
                set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
            endif()
        endforeach()
        # The optimiser, which shaderc links and is never asked to run.
        if(TARGET SPIRV-Tools-opt)
            set_target_properties(SPIRV-Tools-opt PROPERTIES
                SOURCES "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/spirv-tools-opt.cpp")
        endif()
        # The header that nearly every file of this library includes, parsed once.
        if(TARGET SPIRV-Tools-static)
            target_precompile_headers(SPIRV-Tools-static PRIVATE "${spirv-tools_SOURCE_DIR}/source/val/validation_state.h")
        endif()
        # What scripts/validate-spirv includes; the project's own installation wants the libraries above too.
        install(DIRECTORY "${spirv-tools_SOURCE_DIR}/include/spirv-tools" DESTINATION include)
    endfunction()
    cmake_language(DEFER DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" CALL gpukern_trim_spirv_tools)
endif()
