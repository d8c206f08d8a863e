// Steps of elimination with the largest magnitude of a column as its pivot, by one work-group with rows in registers. A step is
// a maximum over the rows of an invocation, one over its sub-group, a barrier, and one over the sub-groups; then the one invocation
// that has it leaves its row in shared memory, and after a second barrier all take their multiple of it. Two barriers and one
// row cost less than one barrier and a candidate's row of each sub-group, whose instructions all sub-groups would have to issue.
//
// Who includes it declares the constants ROWS, of an invocation, MICRO, the columns that a step works on, SUBGROUP, and SELECT, whether
// the row of a pivot is selected in registers before it is stored: for a device that executes both sides of a branch, where a
// store costs more than many selections. X(r, d) is where column d of row r is in registers. Rows have places in the group: quads of an
// invocation's rows are LANES quads apart.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

const uint LANES = gl_WorkGroupSize.x;
const uint GROUPS = LANES / SUBGROUP;
const uint QUADS = ROWS / 4;  // of an invocation's rows
const uint LINE_QUADS = (MICRO + 3) / 4;
const uint LINE = INNER + 1;

shared uint tops[GROUPS];                     // the largest magnitude of each sub-group, as an integer
shared vec4 pivot_line[LINE_QUADS];           // the row of a pivot
shared uint pivots[INNER];                    // places of the pivots
shared float lower[INNER * LINE];             // rows of L of some of them
shared vec4 upper[INNER * INNER / 4];         // their rows of U

uvec2 done;  // a bit for each row that has been a pivot, or is none; 64 at most

#define DONE(r) ((done[(r) / 32] >> (r) % 32 & 1u) != 0)
#define BIT(r) uvec2((r) < 32 ? 1u << (r) % 32 : 0u, (r) < 32 ? 0u : 1u << (r) % 32)
#define MAGNITUDE(r, d) (floatBitsToUint(X(r, d)) & 0x7fffffffu)
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
        uint key = 0;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) key = max(key, MAGNITUDE(r, m));
        uint top = subgroupMax(key);
        if (gl_SubgroupInvocationID == 0) tops[gl_SubgroupID] = top;
        barrier();
        uint group = gl_SubgroupInvocationID, other = tops[min(group, GROUPS - 1)];
        if (GROUPS > SUBGROUP) {
            for (uint g = group + SUBGROUP; g < GROUPS; g += SUBGROUP) {
                group = tops[g] > other ? g : group;
                other = max(other, tops[g]);
            }
        }
        uint largest = subgroupMax(other), leader = subgroupBallotFindLSB(subgroupBallot(other == largest));
        bool wins = gl_SubgroupID == (GROUPS > SUBGROUP ? subgroupShuffle(group, leader) : leader);
        if (SELECT != 0) {
            bool found = !wins || gl_SubgroupInvocationID != subgroupBallotFindLSB(subgroupBallot(key == largest));
            wins = !found;
            uint place = 0;
            float row[MICRO];
            [[unroll]] for (uint d = 0; d < MICRO; ++d) row[d] = 0.0;
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                bool own = !found && MAGNITUDE(r, m) == largest;
                found = found || own;
                place = own ? lane * 4 + OFFSET(r) : place;
                done |= own ? BIT(r) : uvec2(0);
                [[unroll]] for (uint d = 0; d < MICRO; ++d) {
                    row[d] = own ? X(r, m + d) : row[d];
                    X(r, m + d) = own && d + c < MICRO ? 0.0 : X(r, m + d);
                }
            }
            // U in the columns that are left, L in those behind them.
            if (wins) {
                pivots[column + c] = place;
                [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) {
                    vec4 line;
                    [[unroll]] for (uint j = 0; j < 4; ++j) line[j] = 4 * q + j + c < MICRO ? row[min(4 * q + j, MICRO - 1)] : 0.0;
                    pivot_line[q] = line;
                }
                [[unroll]] for (uint d = 1; d < MICRO; ++d) {
                    if (d + c >= MICRO) lower[c * LINE + column + d + c - MICRO] = row[d];
                }
            }
        } else if (wins) {
            if (gl_SubgroupInvocationID == subgroupBallotFindLSB(subgroupBallot(key == largest))) {
                bool found = false;
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    if (found || MAGNITUDE(r, m) != largest) continue;
                    found = true;
                    pivots[column + c] = lane * 4 + OFFSET(r);
                    done |= BIT(r);
                    // Behind the columns that are left are factors, which stay as they are. The rest is done.
                    [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) {
                        vec4 line;
                        [[unroll]] for (uint j = 0; j < 4; ++j) {
                            bool left = 4 * q + j + c < MICRO;
                            line[j] = left ? X(r, m + min(4 * q + j, MICRO - 1)) : 0.0;
                            X(r, m + min(4 * q + j, MICRO - 1)) = left ? 0.0 : X(r, m + min(4 * q + j, MICRO - 1));
                        }
                        pivot_line[q] = line;
                    }
                }
            }
        }
        // By the magnitude, which all know before they know the row. Where it is zero there is nothing to eliminate.
        float magnitude = uintBitsToFloat(largest), scale = scale_of(magnitude);
        float inverse = largest == 0 ? 0.0 : 1.0 / (magnitude * scale);
        barrier();
        vec4 line[LINE_QUADS];
        [[unroll]] for (uint q = 0; q < LINE_QUADS; ++q) line[q] = pivot_line[q];
        if (lane < MICRO - c) UPPER(column + c, column + c + lane) = pivot_line[lane / 4][lane % 4];
        float reciprocal = line[0].x < 0.0 ? -inverse : inverse;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            float factor = X(r, m) * scale * reciprocal;
            [[unroll]] for (uint d = 1; d < MICRO; ++d) X(r, m + d - 1) = X(r, m + d) - factor * line[d / 4][d % 4];
            X(r, m + MICRO - 1) = factor;
        }
    }
}
