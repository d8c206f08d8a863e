// What loops in CUDA reach of arithmetic and of mma.sync, beside `gpukern peak`: best of 25 runs each.
//   nvcc -O3 -arch=sm_90 -o cuda-rates scripts/cuda-rates.cu && ./cuda-rates
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

const int STEPS = 2048;
const int THREADS = 256;

template <class T> __device__ T mad(T x, T a, T b) { return x * a + b; }
template <> __device__ float mad(float x, float a, float b) { return fmaf(x, a, b); }
template <> __device__ double mad(double x, double a, double b) { return fma(x, a, b); }
template <> __device__ __half2 mad(__half2 x, __half2 a, __half2 b) { return __hfma2(x, a, b); }
template <> __device__ __nv_bfloat162 mad(__nv_bfloat162 x, __nv_bfloat162 a, __nv_bfloat162 b) { return __hfma2(x, a, b); }
// Four bytes: their dot product with others, and a sum.
struct Bytes { int v; };
template <> __device__ Bytes mad(Bytes x, Bytes a, Bytes b) { return Bytes{__dp4a(x.v, a.v, b.v)}; }

template <class T, int CHAINS> __global__ void chains(T *y, T a, T b) {
    T x[CHAINS];
    for (int c = 0; c < CHAINS; c++) x[c] = y[(threadIdx.x + c) & 63];
    for (int i = 0; i < STEPS / 16; i++)
#pragma unroll
        for (int u = 0; u < 16; u++)
#pragma unroll
            for (int c = 0; c < CHAINS; c++) x[c] = mad(x[c], a, b);
    for (int c = 0; c < CHAINS; c++) y[(blockIdx.x * blockDim.x + threadIdx.x) * (size_t)CHAINS + c + 64] = x[c];
}

// Seconds of the fastest of 25 runs.
template <class F> double best(F run) {
    cudaEvent_t before, after;
    cudaEventCreate(&before);
    cudaEventCreate(&after);
    double least = 1e30;
    for (int i = 0; i < 25; i++) {
        float ms;
        cudaEventRecord(before);
        run();
        cudaEventRecord(after);
        cudaEventSynchronize(after);
        cudaEventElapsedTime(&ms, before, after);
        least = ms < least ? ms : least;
    }
    cudaError_t error = cudaGetLastError();
    if (error) printf("error: %s\n", cudaGetErrorString(error));
    return least * 1e-3;
}

void told(const char *name, int chains, double operations, double seconds) {
    printf("%-12s chains %2d  %8.2f Tera-op/s  (%.3f ms)\n", name, chains, operations / seconds * 1e-12, seconds * 1e3);
}

template <class T, int CHAINS> void rate(const char *name, T a, T b, double per_step) {
    const int blocks = 132 * 8 * 16;
    const size_t threads = (size_t)THREADS * blocks;
    T *y;
    cudaMalloc(&y, sizeof(T) * (64 + threads * CHAINS));
    cudaMemset(y, 1, sizeof(T) * (64 + threads * CHAINS));
    double seconds = best([&] { chains<T, CHAINS><<<blocks, THREADS>>>(y, a, b); });
    told(name, CHAINS, per_step * STEPS * CHAINS * threads, seconds);
    cudaFree(y);
}

template <class T> void rates(const char *name, T a, T b, double per_step) {
    rate<T, 4>(name, a, b, per_step);
    rate<T, 8>(name, a, b, per_step);
    rate<T, 16>(name, a, b, per_step);
}

#define FOUR(OPERATION, REGISTER)                                                                                      \
    asm volatile(OPERATION " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"                                       \
                 : "+" REGISTER(d[c][0]), "+" REGISTER(d[c][1]), "+" REGISTER(d[c][2]), "+" REGISTER(d[c][3])          \
                 : "r"(v), "r"(v), "r"(v), "r"(v), "r"(v), "r"(v))
#define TWO(OPERATION, REGISTER)                                                                                       \
    asm volatile(OPERATION " {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"                                                   \
                 : "+" REGISTER(d[c][0]), "+" REGISTER(d[c][1])                                                        \
                 : "r"(v), "r"(v), "r"(v), "r"(v), "r"(v), "r"(v))
#define MMA(NAME, TYPE, WORDS, PRODUCT)                                                                                \
    template <int CHAINS> __global__ void NAME(unsigned *y, unsigned v) {                                              \
        TYPE d[CHAINS][4], sum = 0;                                                                                    \
        for (int c = 0; c < CHAINS; c++)                                                                               \
            for (int k = 0; k < WORDS; k++) d[c][k] = TYPE(threadIdx.x + c);                                           \
        for (int i = 0; i < 1024; i++) _Pragma("unroll") for (int c = 0; c < CHAINS; c++) PRODUCT;                     \
        for (int c = 0; c < CHAINS; c++)                                                                               \
            for (int k = 0; k < WORDS; k++) sum += d[c][k];                                                            \
        y[blockIdx.x * blockDim.x + threadIdx.x] = (unsigned)sum;                                                      \
    }
MMA(mma_f16_f32, float, 4, FOUR("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "f"))
MMA(mma_f16_f16, unsigned, 2, TWO("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "r"))
MMA(mma_bf16, float, 4, FOUR("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "f"))
MMA(mma_s8, unsigned, 4, FOUR("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "r"))
MMA(mma_u8, unsigned, 4, FOUR("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", "r"))

template <class F> void product(const char *name, F kernel, int k, int chains) {
    const int blocks = 132 * 16;
    unsigned *y;
    cudaMalloc(&y, sizeof(unsigned) * THREADS * blocks);
    double seconds = best([&] { kernel<<<blocks, THREADS>>>(y, 0u); });
    told(name, chains, 2.0 * 16 * 8 * k * chains * 1024 * (THREADS / 32) * blocks, seconds);
    cudaFree(y);
}
#define PRODUCTS(NAME, K)                                                                                              \
    product(#NAME, NAME<4>, K, 4);                                                                                     \
    product(#NAME, NAME<8>, K, 8);                                                                                     \
    product(#NAME, NAME<12>, K, 12)

int main() {
    rates<float>("f32", 0.999f, 0.001f, 2);
    rates<__half2>("f16", __float2half2_rn(-1.f), __float2half2_rn(1.f), 4);
    rates<__nv_bfloat162>("bf16", __float2bfloat162_rn(-1.f), __float2bfloat162_rn(1.f), 4);
    rates<double>("f64", 0.999, 0.001, 2);
    rates<int>("i32", 12345, 678, 2);
    rates<short>("i16", 12345, 678, 2);
    rates<int8_t>("i8", 123, 67, 2);
    rates<Bytes>("four bytes", Bytes{0x01020304}, Bytes{0x05060708}, 8);
    PRODUCTS(mma_f16_f32, 16);
    PRODUCTS(mma_f16_f16, 16);
    PRODUCTS(mma_bf16, 16);
    PRODUCTS(mma_s8, 32);
    PRODUCTS(mma_u8, 32);
}
