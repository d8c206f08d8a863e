// Transposes a matrix of N×N, 16×16 elements a work-group. It lacks a barrier on purpose: `gpukern sanitize` finds it.
#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) writeonly buffer B { float b[]; };
layout(push_constant) uniform Arguments { uint n; };
shared float tile[16][17];

void main() {
    uvec2 place = gl_LocalInvocationID.xy, corner = 16 * gl_WorkGroupID.xy;
    uvec2 from = corner + place, to = corner.yx + place;
    if (max(from.x, from.y) < n) tile[place.y][place.x] = a[from.y * n + from.x];
    // The work-group has to wait here: barrier();

    if (max(to.x, to.y) < n) b[to.y * n + to.x] = tile[place.x][place.y];
}
