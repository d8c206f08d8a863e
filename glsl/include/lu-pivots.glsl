// Steps of elimination with the largest magnitude of a column as its pivot, by one work-group with rows in registers: ROWS of
// each of its invocations, COLUMNS columns of them. A step works on MICRO columns only; the others in registers follow
// after MICRO steps. It is a maximum over the rows of an invocation, one over its sub-group, a barrier, and one over the
// sub-groups, each of which has left its candidate's row beside its maximum, so that the row of the pivot can be read
// at once.
//
// Who includes it declares the constants ROWS, COLUMNS, MICRO and SUBGROUP. Rows have places in the group: quads of an
// invocation's rows are LANES quads apart.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = ROWS / 4;                  // of an invocation's rows
const uint LINE_QUADS = (MICRO + 3) / 4;
const uint LINE = INNER + 1;
const bool FEW = GROUPS <= 8;  // whose candidates are compared one by one
const uint FIRST_GROUPS = FEW ? GROUPS : 1;

shared uvec2 candidates[2 * GROUPS];          // magnitudes as integers, and places
shared vec4 lines[2 * GROUPS * LINE_QUADS];   // their rows
shared uint pivots[INNER];                    // places of the pivots
shared float lower[INNER * LINE];             // rows of L of some of them
shared vec4 upper[INNER * INNER / 4];         // their rows of U

vec4 x[QUADS * COLUMNS];
uvec2 done;  // a bit for each row that has been a pivot, or is none; 64 at most

#define DONE(r) ((done[(r) / 32] >> (r) % 32 & 1u) != 0)
#define OFFSET(r) ((r) / 4 * 4 * LANES + (r) % 4)
#define X(q, d) x[(q) * COLUMNS + (d)]
#define UPPER(i, d) upper[(i) * (INNER / 4) + (d) / 4][(d) % 4]

// The invocation that has a place, and which of its rows it is.
uint owner(uint place) { return place / 4 % LANES; }
uint row_of_owner(uint place) { return place / (4 * LANES) * 4 + place % 4; }

// Element j of a quad, without an index that would put registers into memory.
float element(vec4 quad, uint j) { return j < 2 ? (j == 0 ? quad.x : quad.y) : (j == 2 ? quad.z : quad.w); }

// What is done is zero from then on: it is no pivot, and what is taken from it is zero times something.
void clear_done(uint m) {
    [[unroll]] for (uint c = 0; c < MICRO; ++c) {
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            X(q, m + c) = mix(X(q, m + c), vec4(0), bvec4(DONE(4 * q), DONE(4 * q + 1), DONE(4 * q + 2), DONE(4 * q + 3)));
        }
    }
}

// Factorises columns `m` to `m` + MICRO in registers, which are columns `column` and on of the inner block. Their factors take
// their places.
void factorise_micro(uint lane, uint m, uint column) {
    clear_done(m);
    // The columns move through the registers: the one to be factorised is always the first, and what is left of each
    // other is written a column further down, the factors behind them. So places are constants in a loop that remains one.
    for (uint c = 0; c < MICRO; ++c) {
        // Two sets of candidates, so that one barrier a column is enough.
        uint set = c % 2 * GROUPS, key = 0, best = 0;
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            uvec4 own = floatBitsToUint(X(q, m)) & 0x7fffffffu;
            [[unroll]] for (uint j = 0; j < 4; ++j) {
                best = own[j] > key ? OFFSET(4 * q + j) : best;
                key = max(key, own[j]);
            }
        }
        uint top = subgroupMax(key);
        if (gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == top))) {
            candidates[set + gl_SubgroupID] = uvec2(top, lane * 4 + best);
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                if (best / (4 * LANES) != q) continue;
                // Behind the columns that are left are factors, which stay as they are.
                [[unroll]] for (uint d = 0; d < MICRO; d += 4) {
                    vec4 line;
                    [[unroll]] for (uint j = 0; j < 4; ++j) {
                        float value = element(X(q, m + (d + j < MICRO ? d + j : 0)), best % 4);
                        line[j] = d + j + c < MICRO ? value : 0.0;
                    }
                    lines[(set + gl_SubgroupID) * LINE_QUADS + d / 4] = line;
                }
            }
        }
        barrier();
        uint where, winner = set;
        if (FEW) {
            uvec2 candidate = candidates[set];
            [[unroll]] for (uint g = 1; g < FIRST_GROUPS; ++g) {
                uvec2 other = candidates[set + g];
                winner = other.x > candidate.x ? set + g : winner;
                candidate = other.x > candidate.x ? other : candidate;
            }
            where = candidate.y;
        } else {
            uvec2 candidate = uvec2(0, ~0u);
            for (uint g = gl_SubgroupInvocationID; g < GROUPS; g += SUBGROUP) {
                uvec2 other = candidates[set + g];
                if (other.x > candidate.x || g < SUBGROUP) candidate = other;
            }
            uint leader = subgroupBallotFindLSB(subgroupBallot(candidate.x == subgroupMax(candidate.x)));
            where = subgroupShuffle(candidate.y, leader);
            winner = set + owner(where) / SUBGROUP;
        }
        vec4 line[LINE_QUADS];
        [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) line[q] = lines[winner * LINE_QUADS + q];
        if (lane < MICRO - c) UPPER(column + c, column + c + lane) = lines[winner * LINE_QUADS + lane / 4][lane % 4];
        if (lane == 0) pivots[column + c] = where;
        uint own = owner(where) == lane ? row_of_owner(where) : ~0u;
        done |= uvec2(own < 32 ? 1u << own : 0u, own >= 32 && own < ROWS ? 1u << own % 32 : 0u);
        // Where the largest is zero there is nothing to eliminate.
        Divisor by = divisor(line[0].x);
        if (line[0].x == 0.0) by.reciprocal = 0.0;
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            uvec4 rows = uvec4(4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3);
            vec4 factor = mix(X(q, m) * by.scale * by.reciprocal, vec4(1), equal(rows, uvec4(own)));
            [[unroll]] for (uint d = 1; d < MICRO; ++d) X(q, m + d - 1) = X(q, m + d) - factor * line[d / 4][d % 4];
            X(q, m + MICRO - 1) = factor;
        }
    }
}

// Brings the columns in registers behind those from `m` on up to date with them. They are those up to `end` of the inner
// block: the pivots' rows of them, from which U is solved for, then all.
void follow_micro(uint lane, uint m, uint column, uint end) {
    for (uint i = 0; i < MICRO; ++i) {
        uint place = pivots[column + i];
        if (owner(place) != lane) continue;
        uint row = row_of_owner(place);
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            if (row / 4 != q) continue;
            [[unroll]] for (uint d = 0; d < COLUMNS; ++d) {
                float value = element(X(q, d), row % 4);
                if (d >= m && d < m + MICRO) lower[i * LINE + d - m] = value;
                if (d >= m + MICRO) UPPER(column + i, column + d - m) = value;
            }
        }
    }
    barrier();
    uint own = column + MICRO + lane;
    if (own < end) {
        float u[MICRO];
        [[unroll]] for (uint i = 0; i < MICRO; ++i) {
            u[i] = UPPER(column + i, own);
            [[unroll]] for (uint k = 0; k < MICRO; ++k) if (k < i) u[i] -= lower[i * LINE + k] * u[k];
            UPPER(column + i, own) = u[i];
        }
    }
    barrier();
    // The factors go round once.
    for (uint k = 0; k < MICRO; ++k) {
        [[unroll]] for (uint d = 0; d < COLUMNS; d += 4) {
            vec4 u = upper[(column + k) * (INNER / 4) + min((column + d - m) / 4, INNER / 4 - 1)];
            [[unroll]] for (uint q = 0; q < QUADS; ++q) {
                [[unroll]] for (uint j = 0; j < 4; ++j) if (d >= m + MICRO && d + j < COLUMNS) X(q, min(d + j, COLUMNS - 1)) -= X(q, m) * u[j];
            }
        }
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            vec4 factor = X(q, m);
            [[unroll]] for (uint d = 1; d < MICRO; ++d) X(q, m + d - 1) = X(q, m + d);
            X(q, m + MICRO - 1) = factor;
        }
    }
}
