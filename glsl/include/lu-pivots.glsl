// Steps of elimination with the largest magnitude of a column as its pivot, of equal ones the first, by one work-group with rows in
// registers: ROWS of each of its invocations, COLUMNS columns of them. A step works on MICRO columns only; the others in
// registers follow after MICRO steps. It is a maximum over the rows of an invocation, one over its sub-group, a barrier, and one
// over the sub-groups, each of which has left its candidate's row beside its maximum, so that the row of the pivot can be
// read at once.
//
// Who includes it declares the constants ROWS, COLUMNS, MICRO and SUBGROUP. Rows have places in the group: quads of an
// invocation's rows are LANES quads apart.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = (MICRO + 3) / 4;
const uint LINE = INNER + 1;

shared uvec2 candidates[2 * GROUPS];    // magnitudes as integers, and places
shared vec4 lines[2 * GROUPS * QUADS];  // their rows
shared uint pivots[INNER];              // places of the pivots
shared float lower[INNER * LINE];       // rows of L of some of them
shared float upper[INNER * INNER];      // their rows of U

float x[ROWS * COLUMNS];
uint done;  // a bit for each row that has been a pivot, or is none; 32 at most

#define DONE(r) ((done >> (r) & 1u) != 0)
#define OFFSET(r) ((r) / 4 * 4 * LANES + (r) % 4)
#define X(r, d) x[(r) * COLUMNS + (d)]

// The invocation that has a place, and which of its rows it is.
uint owner(uint place) { return place / 4 % LANES; }
uint row_of_owner(uint place) { return place / (4 * LANES) * 4 + place % 4; }

// Factorises the first MICRO columns in registers, which are columns `m` and on of the inner block. Leaves their factors in
// their place.
void factorise_micro(uint lane, uint m) {
    // What is done is zero from then on: what is taken from it is zero times something.
    [[unroll]] for (uint c = 0; c < MICRO; ++c) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, c) = DONE(r) ? 0.0 : X(r, c);
    }
    // The columns move through the registers: the one to be factorised is always the first, and what is left of each
    // other is written a column further down, the factors behind them. So places are constants in a loop that remains one.
    for (uint c = 0; c < MICRO; ++c) {
        // Two sets of candidates, so that one barrier a column is enough. A row that is done has no key.
        uint set = c % 2 * GROUPS, key = 0, best = 0;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint own = DONE(r) ? 0 : (floatBitsToUint(X(r, 0)) & 0x7fffffffu) + 1;
            best = own > key ? OFFSET(r) : best;
            key = max(key, own);
        }
        uint top = subgroupMax(key), place = lane * 4 + best;
        bool leads;
        if (BALLOT != 0) {
            leads = gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == top));
        } else {
            uint least = subgroupMin(key == top ? place : ~0u);
            leads = key == top && place == least;
        }
        if (leads) {
            candidates[set + gl_SubgroupID] = uvec2(top, place);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                if (best != OFFSET(r)) continue;
                [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                    vec4 line;
                    // Behind the columns that are left are factors, which stay as they are.
                    [[unroll]] for (uint j = 0; j < 4; ++j) {
                        line[j] = 4 * q + j + c < MICRO ? X(r, min(4 * q + j, MICRO - 1)) : 0.0;
                    }
                    lines[(set + gl_SubgroupID) * QUADS + q] = line;
                }
            }
        }
        barrier();
        uvec2 candidate = uvec2(0, ~0u);
        for (uint g = gl_SubgroupInvocationID; g < GROUPS; g += SUBGROUP) {
            uvec2 other = candidates[set + g];
            if (other.x > candidate.x || (other.x == candidate.x && other.y < candidate.y)) candidate = other;
        }
        uint where;
        bool largest = candidate.x == subgroupMax(candidate.x);
        if (BALLOT != 0) {
            where = subgroupShuffle(candidate.y, subgroupBallotFindLSB(subgroupBallot(largest)));
        } else {
            where = subgroupMin(largest ? candidate.y : ~0u);
        }
        uint winner = set + owner(where) / SUBGROUP;
        vec4 line[QUADS];
        [[unroll]] for (uint q = 0; q < QUADS; ++q) line[q] = lines[winner * QUADS + q];
        if (lane < MICRO - c) upper[(m + c) * INNER + m + c + lane] = lines[winner * QUADS + lane / 4][lane % 4];
        if (lane == 0) pivots[m + c] = where;
        uint own = owner(where) == lane ? row_of_owner(where) : ~0u;
        done |= own < ROWS ? 1u << own : 0u;
        // Where the largest is zero there is nothing to eliminate.
        Divisor by = divisor(line[0].x);
        if (line[0].x == 0.0) by.reciprocal = 0.0;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            float factor = own == r ? 1.0 : X(r, 0) * by.scale * by.reciprocal;
            [[unroll]] for (uint d = 1; d < MICRO; ++d) X(r, d - 1) = X(r, d) - factor * line[d / 4][d % 4];
            X(r, MICRO - 1) = factor;
        }
    }
}

// Brings the other columns in registers up to date, those from `m` + MICRO to `end` of the inner block, and moves them to the
// front: the pivots' rows of them, from which U is solved for, then all.
void follow_micro(uint lane, uint m, uint end) {
    for (uint i = 0; i < MICRO; ++i) {
        if (owner(pivots[m + i]) != lane) continue;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            if (row_of_owner(pivots[m + i]) != r) continue;
            [[unroll]] for (uint k = 0; k < MICRO; ++k) lower[i * LINE + k] = X(r, k);
            [[unroll]] for (uint d = MICRO; d < COLUMNS; ++d) {
                if (m + d < end) upper[(m + i) * INNER + m + d] = X(r, d);
            }
        }
    }
    barrier();
    uint column = m + MICRO + lane;
    if (column < end) {
        float u[MICRO];
        [[unroll]] for (uint i = 0; i < MICRO; ++i) {
            u[i] = upper[(m + i) * INNER + column];
            [[unroll]] for (uint k = 0; k < MICRO; ++k) if (k < i) u[i] -= lower[i * LINE + k] * u[k];
            upper[(m + i) * INNER + column] = u[i];
        }
    }
    barrier();
    float l[ROWS * MICRO];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint k = 0; k < MICRO; ++k) l[r * MICRO + k] = X(r, k);
    }
    [[unroll]] for (uint d = MICRO; d < COLUMNS; ++d) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, d - MICRO) = X(r, d);
        // Columns that are none repeat the last.
        uint from_row = m * INNER + min(m + d, end - 1);
        [[unroll]] for (uint k = 0; k < MICRO; ++k) {
            float u = upper[from_row + k * INNER];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, d - MICRO) -= l[r * MICRO + k] * u;
        }
    }
}
