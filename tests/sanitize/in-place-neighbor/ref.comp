#version 460
layout(local_size_x = 1) in;
layout(binding = 0) buffer Y { uint y[]; };
void main() {
    for (uint i = 0; i < y.length(); i++) {
        y[i] = y[i] + (i + 1 < y.length() ? y[i + 1] : 0);
    }
}
