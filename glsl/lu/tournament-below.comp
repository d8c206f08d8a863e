// The columns of L below the pivots that a tournament has chosen, from L·U = A by substitution, for all rows at once; rows change
// places on the way, the pivots to the front, those that stood there to where pivots were. The first work-group does
// that, and in `rows` and the columns of the outer block before these; the others leave alone what it moves.
// Mapping: an invocation has a position.
#version 460
#extension GL_KHR_memory_scope_semantics : require
#pragma dtypes f32
#include "lu-blocked.glsl"

layout(local_size_x_id = 0) in;  // 128

layout(push_constant, scalar) uniform Arguments {
    Reals P;
    Reals corner;    // the factors of the pivots' rows, 32×32
    Indices chosen;  // their positions, from `first` on
    Indices rows;
    uint stride;
    uint first;  // row and column of the inner block
    uint plane;  // its first column in P
};

const uint LANES = gl_WorkGroupSize.x;
const uint QUADS = INNER / 4;

shared vec4 factors[INNER * QUADS];
shared vec4 divisors[INNER];  // the elements on the diagonal, as Divisor has them
shared uint pivots[INNER];
shared uint stays[INNER];     // whether a row of the first 32 is a pivot
shared uint sources[2 * INNER], targets[2 * INNER], moved;

// A barrier after which the group sees what it wrote to buffers.
void barrier_of_memory() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// Where rows go, from `first` on: element 32 + j is the row that the j-th pivot from behind the front leaves its place to.
void exchange(uint lane) {
    if (lane < INNER) {
        pivots[lane] = chosen.at[lane];
        stays[lane] = 0;
    }
    barrier();
    if (lane < INNER && pivots[lane] < INNER) stays[pivots[lane]] = 1;
    barrier();
    if (lane < INNER) {
        uint vacated = 0, displaced = 0;
        for (uint j = 0; j < lane; ++j) {
            vacated += pivots[j] < INNER ? 0 : 1;
            displaced += 1 - stays[j];
        }
        sources[lane] = pivots[lane];
        targets[lane] = lane;
        if (pivots[lane] >= INNER) targets[INNER + vacated] = pivots[lane];
        if (stays[lane] == 0) sources[INNER + displaced] = lane;
        // They are as many as those, unless a column of zeros had no pivot: then one row is taken for two, which fails the case.
        if (lane == INNER - 1) moved = INNER + min(vacated + (pivots[lane] < INNER ? 0 : 1), displaced + 1 - stays[lane]);
    }
    barrier();
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint at = lane; at < INNER * QUADS; at += LANES) factors[at] = Quads(corner).at[at];
    exchange(lane);
    if (lane < INNER) {
        Divisor by = divisor(factors[lane * QUADS + lane / 4][lane % 4]);
        divisors[lane] = vec4(by.scale, by.value, by.reciprocal, 0);
    }
    barrier();
    bool moves = gl_WorkGroupID.x == 0, writes = moves ? lane < moved : true;
    uint from, to;
    if (moves) {
        from = sources[min(lane, moved - 1)];
        to = targets[min(lane, moved - 1)];
    } else {
        from = INNER + (gl_WorkGroupID.x - 1) * LANES + lane;
        to = from;
        if (first + from >= stride) writes = false;
        for (uint i = 0; i < INNER; ++i) if (pivots[i] == from) writes = false;
    }
    from = first + min(from, stride - first - 1);
    to = first + to;
    float a[INNER];
    [[unroll]] for (uint k = 0; k < INNER; ++k) a[k] = P.at[(plane + k) * stride + from];
    uint row = 0;
    if (moves) {
        row = rows.at[from];
        barrier_of_memory();
    }
    for (uint four = 0; four < INNER; four += 4) {
        uint base = four * QUADS + four / 4;
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            vec4 line = factors[base + k * QUADS], by = divisors[four + k];
            a[k] = quotient(a[k], Divisor(by.x, by.y, by.z));
            [[unroll]] for (uint c = 0; c < 4; ++c) if (c > k) a[c] -= line[c] * a[k];
        }
        vec4 solved = vec4(a[0], a[1], a[2], a[3]);
        [[unroll]] for (uint k = 0; k < 4; ++k) {
            // The pivots' own rows are known.
            float value = moves && lane < INNER ? factors[lane * QUADS + four / 4][k] : solved[k];
            if (writes) P.at[(plane + four + k) * stride + to] = value;
        }
        [[unroll]] for (uint q = 1; q < QUADS; ++q) {
            vec4 values = vec4(a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]);
            // What lies behind the block is taken from what nobody asks for.
            [[unroll]] for (uint k = 0; k < 4; ++k) values -= factors[min(base + k * QUADS + q, INNER * QUADS - 1)] * solved[k];
            a[4 * q - 4] = values.x;
            a[4 * q - 3] = values.y;
            a[4 * q - 2] = values.z;
            a[4 * q - 1] = values.w;
        }
    }
    if (!moves) return;
    if (writes) rows.at[to] = row;
    for (uint column = 0; column < plane; column += LANES / 8) {
        float values[8];
        [[unroll]] for (uint i = 0; i < 8; ++i) {
            uint at = i * LANES + lane, e = at % (2 * INNER), source = column + at / (2 * INNER);
            if (e < moved && source < plane) values[i] = P.at[source * stride + first + sources[e]];
        }
        barrier_of_memory();
        [[unroll]] for (uint i = 0; i < 8; ++i) {
            uint at = i * LANES + lane, e = at % (2 * INNER), target = column + at / (2 * INNER);
            if (e < moved && target < plane) P.at[target * stride + first + targets[e]] = values[i];
        }
    }
}
