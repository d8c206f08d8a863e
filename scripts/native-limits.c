// What the host's own code reaches on two threads, beside which `gpukern peak` on a software device is read:
// fused multiply-adds, multiplications with separate additions (what llvmpipe compiles to), and memory.
//
//     gcc -O3 -funroll-loops -mavx2 -mfma -ffp-contract=off -pthread scripts/native-limits.c -o /tmp/native && /tmp/native
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHAINS = 12, STEPS = 100000000, REPEATS = 4, THREADS = 2 };
static const size_t BYTES = 512ul << 20;
static char *source, *target;
static volatile float sink;

#define CHAINS_OF(step)                                                        \
    __m256 x[CHAINS], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);  \
    for (int j = 0; j < CHAINS; j++) x[j] = _mm256_set1_ps(1.0f + j);          \
    for (long i = 0; i < STEPS; i++)                                           \
        for (int j = 0; j < CHAINS; j++) step;                                 \
    float sum[8];                                                              \
    for (int j = 1; j < CHAINS; j++) x[0] = _mm256_add_ps(x[0], x[j]);         \
    _mm256_storeu_ps(sum, x[0]);                                               \
    sink = sum[0];                                                             \
    return part

static void *fused(void *part) { CHAINS_OF(x[j] = _mm256_fmadd_ps(x[j], a, b)); }
static void *separate(void *part) { CHAINS_OF(x[j] = _mm256_add_ps(_mm256_mul_ps(x[j], a), b)); }

static void *copy(void *part) {
    size_t half = BYTES / THREADS, at = (size_t)part * half;
    for (int r = 0; r < REPEATS; r++) memcpy(target + at, source + at, half);
    return part;
}

static void *write_all(void *part) {
    size_t half = BYTES / THREADS;
    for (int r = 0; r < REPEATS; r++) memset(target + (size_t)part * half, r, half);
    return part;
}

static void *read_all(void *part) {
    size_t half = BYTES / THREADS;
    const __m256i *from = (const __m256i *)(source + (size_t)part * half);
    __m256i x = _mm256_setzero_si256();
    for (int r = 0; r < REPEATS; r++) {
        for (size_t i = 0; i < half / 32; i += 4)
            x ^= (from[i] ^ from[i + 1]) ^ (from[i + 2] ^ from[i + 3]);
        __asm__ volatile("" : "+x"(x) : : "memory");  // or the compiler reads once and multiplies
    }
    sink = (float)_mm256_extract_epi32(x, 0);
    return part;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// Seconds of the best of five runs on all threads.
static double best(void *(*work)(void *)) {
    double best = 1e9;
    for (int k = 0; k < 5; k++) {
        pthread_t threads[THREADS];
        double begun = now();
        for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
        double taken = now() - begun;
        if (taken < best) best = taken;
    }
    return best;
}

int main(void) {
    source = aligned_alloc(4096, BYTES);
    target = aligned_alloc(4096, BYTES);
    memset(source, 1, BYTES);
    memset(target, 1, BYTES);
    double operations = 2.0 * STEPS * CHAINS * 8 * THREADS, bytes = (double)REPEATS * BYTES;
    printf("multiply-adds, fused    %6.1f GFLOP/s\n", operations / best(fused) / 1e9);
    printf("multiply-adds, separate %6.1f GFLOP/s\n", operations / best(separate) / 1e9);
    printf("read                    %6.1f GB/s\n", bytes / best(read_all) / 1e9);
    printf("write                   %6.1f GB/s\n", bytes / best(write_all) / 1e9);
    printf("copy, both directions   %6.1f GB/s\n", 2 * bytes / best(copy) / 1e9);
}
