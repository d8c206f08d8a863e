// Stands in for SPIRV-Tools' optimiser, whose sources are two thirds of the time that shaderc takes to build. shaderc
// runs it only for passes that its caller requests, and build.rs requests none: drivers optimise.
//
// Has what shaderc's libshaderc_util/src/spirv_tools_wrapper.cc refers to. Requested passes are an error, never ignored.
#include <utility>

#include "spirv-tools/optimizer.hpp"

namespace spvtools {

struct Optimizer::PassToken::Impl {};
struct Optimizer::Impl {
    MessageConsumer consumer;
};

Optimizer::PassToken::PassToken(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Optimizer::PassToken::~PassToken() = default;
Optimizer::PassToken CreateStripDebugInfoPass() { return {std::make_unique<Optimizer::PassToken::Impl>()}; }
Optimizer::PassToken CreateCompactIdsPass() { return {std::make_unique<Optimizer::PassToken::Impl>()}; }

Optimizer::Optimizer(spv_target_env) : impl_(std::make_unique<Impl>()) {}
Optimizer::~Optimizer() = default;
void Optimizer::SetMessageConsumer(MessageConsumer consumer) { impl_->consumer = std::move(consumer); }
Optimizer& Optimizer::RegisterPass(PassToken&&) { return *this; }
Optimizer& Optimizer::RegisterPerformancePasses() { return *this; }
Optimizer& Optimizer::RegisterSizePasses() { return *this; }
Optimizer& Optimizer::RegisterLegalizationPasses() { return *this; }
bool Optimizer::Run(const uint32_t*, size_t, std::vector<uint32_t>*, spv_optimizer_options) const {
    if (impl_->consumer) {
        impl_->consumer(SPV_MSG_ERROR, "", {},
                        "this shaderc was built without the optimiser: see scripts/shaderc-toolchain.cmake");
    }
    return false;
}

}  // namespace spvtools
