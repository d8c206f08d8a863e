#version 460
// Invocations take items from a queue until it is empty; an item costs what its value says.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) buffer Queue { uint next; };
void main() {
    while (true) {
        const uint item = next;
        next = item + 1;
        if (item >= x.length()) {
            break;
        }
        uint sum = 0;
        for (uint i = 0; i < x[item]; i++) {
            sum = sum * 3 + i;
        }
        y[item] = sum;
    }
}
