// f32 vectors and row-major n×n matrices in buffers, and where a work-group lies in them.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#include "fold.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Input { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer InPlace { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint at[]; };

// The position of a work-group along a vector: groups beyond 65,535 (the smallest limit of Vulkan) are folded into y.
uint folded_group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
