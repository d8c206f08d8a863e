// Validates SPIR-V modules with the validator that shaderc carries: see validate-spirv.
#include <spirv-tools/libspirv.h>
#include <stdio.h>

int main(int count, char **paths) {
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_3);
    spv_validator_options options = spvValidatorOptionsCreate();
    spvValidatorOptionsSetScalarBlockLayout(options, true);
    int invalid = 0;
    for (int i = 1; i < count; ++i) {
        FILE *file = fopen(paths[i], "rb");
        if (!file) return perror(paths[i]), 3;
        static uint32_t words[1 << 20];
        spv_const_binary_t module = {words, fread(words, 4, 1 << 20, file)};
        fclose(file);
        spv_diagnostic diagnostic = NULL;
        if (spvValidateWithOptions(context, options, &module, &diagnostic) != SPV_SUCCESS) {
            ++invalid;
            printf("%s: %s\n", paths[i], diagnostic ? diagnostic->error : "invalid");
        }
        spvDiagnosticDestroy(diagnostic);
    }
    printf("%d modules, %d invalid\n", count - 1, invalid);
    return invalid > 0;
}
