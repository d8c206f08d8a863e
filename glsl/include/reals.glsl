// f32 vectors and row-major n×n matrices in buffers, and where a work-group lies in them.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Input { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer InPlace { float at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Words { uint at[]; };

// The position of a work-group along a vector: groups beyond 65,535 (the smallest limit of Vulkan) are folded into y.
uint folded_group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// The row of a work-group that lies in one row of a matrix: rows beyond that limit are folded into z.
uint folded_row() { return gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y; }
