#version 460
// The softmax of each row: one work-group per row, the largest element subtracted first.
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Arguments { uint COLUMNS; float scale; };

shared float shared_[1024];

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint row = gl_WorkGroupID.x * COLUMNS;
    float largest = uintBitsToFloat(0xff800000u);  // -∞
    for (uint i = lane; i < COLUMNS; i += LANES) {
        largest = max(largest, scale * x[row + i]);
    }
    shared_[lane] = largest;
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        barrier();
        if (lane < reach) {
            shared_[lane] = max(shared_[lane], shared_[lane + reach]);
        }
    }
    barrier();
    largest = shared_[0];
    barrier();
    float sum = 0;
    for (uint i = lane; i < COLUMNS; i += LANES) {
        sum += exp(scale * x[row + i] - largest);
    }
    shared_[lane] = sum;
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        barrier();
        if (lane < reach) {
            shared_[lane] += shared_[lane + reach];
        }
    }
    barrier();
    sum = shared_[0];
    for (uint i = lane; i < COLUMNS; i += LANES) {
        y[row + i] = exp(scale * x[row + i] - largest) / sum;
    }
}
