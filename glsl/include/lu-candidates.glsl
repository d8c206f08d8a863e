// Steps of elimination with the largest magnitude of a column as its pivot, by one work-group with rows in registers. A step is
// a maximum over the rows of an invocation, one over its sub-group, a barrier, and one over the sub-groups, each of which
// has left its candidate's row beside its maximum, so that the row of the pivot can be read at once.
//
// Who includes it declares the constants ROWS, of an invocation, MICRO, the columns that a step works on, and SUBGROUP, and
// X(r, d), where column d of row r is in registers. Rows have places in the group: quads of an invocation's rows are LANES quads
// apart.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = ROWS / 4;  // of an invocation's rows
const uint LINE_QUADS = (MICRO + 3) / 4;
const uint LINE = INNER + 1;
const bool FEW = GROUPS <= 8;  // whose candidates are compared one by one
const uint FIRST_GROUPS = FEW ? GROUPS : 1;

shared uvec2 candidates[2 * GROUPS];          // magnitudes as integers, and places
shared vec4 lines[2 * GROUPS * LINE_QUADS];   // their rows
shared uint pivots[INNER];                    // places of the pivots
shared float lower[INNER * LINE];             // rows of L of some of them
shared vec4 upper[INNER * INNER / 4];         // their rows of U

uvec2 done;  // a bit for each row that has been a pivot, or is none; 64 at most

#define DONE(r) ((done[(r) / 32] >> (r) % 32 & 1u) != 0)
#define OFFSET(r) ((r) / 4 * 4 * LANES + (r) % 4)
#define UPPER(i, d) upper[(i) * (INNER / 4) + (d) / 4][(d) % 4]

// The invocation that has a place, and which of its rows it is.
uint owner(uint place) { return place / 4 % LANES; }
uint row_of_owner(uint place) { return place / (4 * LANES) * 4 + place % 4; }

// Factorises columns `m` to `m` + MICRO in registers, which are columns `column` and on of the inner block. Their factors take
// their places.
void factorise(uint lane, uint m, uint column) {
    // What is done is zero from then on: it is no pivot, and what is taken from it is zero times something.
    [[unroll]] for (uint c = 0; c < MICRO; ++c) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) X(r, m + c) = DONE(r) ? 0.0 : X(r, m + c);
    }
    // The columns move through the registers: the one to be factorised is always the first, and what is left of each
    // other is written a column further down, the factors behind them. So places are constants in a loop that remains one.
    for (uint c = 0; c < MICRO; ++c) {
        // Two sets of candidates, so that one barrier a column is enough.
        uint set = c % 2 * GROUPS, key = 0, best = 0;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint own = floatBitsToUint(X(r, m)) & 0x7fffffffu;
            best = own > key ? OFFSET(r) : best;
            key = max(key, own);
        }
        uint top = subgroupMax(key);
        if (gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == top))) {
            candidates[set + gl_SubgroupID] = uvec2(top, lane * 4 + best);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                if (best != OFFSET(r)) continue;
                [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) {
                    vec4 line;
                    // Behind the columns that are left are factors, which stay as they are.
                    [[unroll]] for (uint j = 0; j < 4; ++j) {
                        line[j] = 4 * q + j + c < MICRO ? X(r, m + min(4 * q + j, MICRO - 1)) : 0.0;
                    }
                    lines[(set + gl_SubgroupID) * LINE_QUADS + q] = line;
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
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            float factor = own == r ? 1.0 : X(r, m) * by.scale * by.reciprocal;
            [[unroll]] for (uint d = 1; d < MICRO; ++d) X(r, m + d - 1) = X(r, m + d) - factor * line[d / 4][d % 4];
            X(r, m + MICRO - 1) = factor;
        }
    }
}
