#version 460
// Inclusive prefix sums in one pass, by decoupled look-back: each work-group publishes the sum of its block, then adds up
// what the groups before it published until it meets a whole prefix.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) coherent buffer State { uint next, flags[]; };
layout(binding = 3) coherent buffer Sums { uint sums[]; };
layout(binding = 4) coherent buffer Prefixes { uint prefixes[]; };
const uint SUM = 1;
const uint PREFIX = 2;
shared uint s[128];
shared uint block_;
shared uint before_;
void main() {
    const uint l = gl_LocalInvocationIndex;
    if (l == 0) {
        block_ = atomicAdd(next, 1);
    }
    barrier();
    const uint block = block_;
    uint sum = x[block * 128 + l];
    s[l] = sum;
    for (uint reach = 1; reach < 128; reach *= 2) {
        barrier();
        const uint left = l >= reach ? s[l - reach] : 0;
        barrier();
        sum += left;
        s[l] = sum;
    }
    if (l == 127) {
        sums[block] = sum;
        if (block == 0) {
            prefixes[block] = sum;
        }
        memoryBarrierBuffer();
        atomicExchange(flags[block], block == 0 ? PREFIX : SUM);
        uint before = 0;
        int at = int(block) - 1;
        while (at >= 0) {
            const uint flag = atomicAdd(flags[at], 0);
            if (flag == 0) {
                continue;
            }
            before += flag == PREFIX ? prefixes[at] : sums[at];
            if (flag == PREFIX) {
                break;
            }
            at--;
        }
        if (block > 0) {
            prefixes[block] = before + sum;
            memoryBarrierBuffer();
            atomicExchange(flags[block], PREFIX);
        }
        before_ = before;
    }
    barrier();
    y[block * 128 + l] = before_ + sum;
}
