// y = W·x, a work-group of 32 per row of W. Rows are blocks of 32 quantised values with a scale. The including file
// declares `blocks` and the product of a block with 32 elements of x.
layout(local_size_x = 32) in;
layout(set = 0, binding = 1) readonly buffer X { float x[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Arguments { uint K; };

shared float partial[32];

float block_product(uint block, uint column);

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint row_blocks = K / 32;
    float sum = 0;
    for (uint block = lane; block < row_blocks; block += 32) {
        sum += block_product(gl_WorkGroupID.x * row_blocks + block, 32 * block);
    }
    partial[lane] = sum;
    for (uint reach = 16; reach > 0; reach /= 2) {
        barrier();
        if (lane < reach) {
            partial[lane] += partial[lane + reach];
        }
    }
    if (lane == 0) {
        y[gl_WorkGroupID.x] = partial[0];
    }
}
