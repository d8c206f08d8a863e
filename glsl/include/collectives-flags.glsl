// Votes and ballots through shared memory: invocations set bits of the words of their sub-group by atomic or, and
// after a work-group barrier all of them read the words. Three sets of words take turns, so that one barrier an
// operation is enough: while one is set, the next is cleared, which was last read two barriers ago.
#define PREPARE clear_flags
#include "collectives.glsl"

shared uint flags[3 * gl_WorkGroupSize.x];
uint turn = 0;

void clear_flags() {
    if (lane * 32 < lanes) flags[place] = 0;
    barrier();
}

// Sets bit `bit` of the sub-group's words where `raised`; returns the words of all lanes. All invocations of the
// work-group must call it.
uvec4 raise(bool raised, uint bit) {
    uint now = turn + first;
    turn = turn == 2 * gl_WorkGroupSize.x ? 0 : turn + gl_WorkGroupSize.x;
    if (raised) atomicOr(flags[now + bit / 32], 1u << (bit % 32));
    if (lane * 32 < lanes) flags[turn + place] = 0;
    barrier();
    uvec4 words = uvec4(flags[now], 0, 0, 0);
    if (lanes > 32) words.y = flags[now + 1];
    if (lanes > 64) words.zw = uvec2(flags[now + 2], flags[now + 3]);
    return words;
}

// Whether any lane of the sub-group is `raised`.
bool any_raised(bool raised) { return raise(raised, 0).x != 0; }
