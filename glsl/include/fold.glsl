// The row of a work-group when groups beyond 65,535 rows (the smallest limit of Vulkan) are folded into z, as
// `folded_groups` of kernel/program.rs does.
uint folded_group_y() { return gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y; }
