/* What the loops share: the recipe, and exponentials and logarithms that fill vector registers.
 *
 * Everything is written out in one order of operations, without fused multiply-adds, so a row's
 * answer has the same bits in any batch, in any thread and on any processor of a family.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define NOTHING 1e-290 /* a mass up to this counts as none: its inverse may not be finite */
#define SUMS 32        /* sums that a loop adds up side by side, so that it fills vectors */
#define NARROW 24      /* up to this many labels, rows are filtered side by side */
#define LANES 32       /* so many of them */
#define EACH_LANE for (int l = 0; l < LANES; l++)

/* Compiled once per kind of processor where the loader can choose, as glibc's does; not under
 * AddressSanitizer, which starts after that choice. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) && \
    !defined(__SANITIZE_ADDRESS__)
#if __has_attribute(target_clones)
#define CLONED __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CLONED
#define CLONED
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* `unlabel._method.recipe.Recipe`, and what is asked of it. Labels stand in the recipe's order,
 * the removed ones first: what a step leaves of a row is a suffix of it. */
typedef struct {
    Py_ssize_t labels, removed, steps;
    const int64_t *order;
    const double *residual_weights, *shares; /* one row per step */
    const double *diagonal, *complement, *no_residual_below, *share_sums; /* one number per step */
    /* `unlabel._method.merge.Merge`, if there is one: the sources of each result, one after another. */
    Py_ssize_t results, entries;
    const int64_t *sources, *starts; /* with the end of the last one */
    const double *weights;
    int logits;
    double temperature, tolerance;
} Recipe;

/* The retained labels as runs of neighbouring columns. */
typedef struct {
    Py_ssize_t number, *starts, *lengths;
} Runs;

INLINE void find_runs(const Recipe *r, Runs *runs)
{
    Py_ssize_t last = -1; /* the run that ends at the column before */
    for (Py_ssize_t j = r->removed; j < r->labels; j++) {
        if (last < 0 || r->order[j] != runs->starts[last] + runs->lengths[last]) {
            runs->starts[++last] = r->order[j];
            runs->lengths[last] = 0;
        }
        runs->lengths[last]++;
    }
    runs->number = last + 1;
}

/* What step t multiplies the rest of a row and its own share by. */
INLINE void mixing(const Recipe *r, Py_ssize_t t, double label, double rest, double along,
                   double *own, double *given)
{
    /* rho and 1 - rho, times the mass; the latter added up, as a subtraction would lose digits. */
    double residual = r->diagonal[t] * label - along;
    double remainder = r->complement[t] * label + rest + along;
    double shared = residual * r->share_sums[t], inverse = 1.0 / (remainder + shared);
    int none = !(rest > NOTHING), zero = residual <= 0.0;
    *own = none ? 0.0 : zero ? 1.0 : remainder * inverse / rest;
    *given = none ? 1.0 : zero ? 0.0 : shared * inverse;
}

/* Join what a loop has side by side, pair by pair. */
#define JOIN(values, joined)                                 \
    for (int width = SUMS / 2; width > 0; width /= 2)        \
        for (int s = 0; s < width; s++) values[s] = joined(values[s], values[s + width]);
#define SUM(a, b) ((a) + (b))
#define SMALLER(a, b) ((b) < (a) ? (b) : (a))
#define LARGER(a, b) ((b) > (a) ? (b) : (a))

INLINE double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* exp(x) for x <= 0: 2^n times a Taylor series on half of log 2 to either side of 0. */
INLINE double exponential_double(double x)
{
    const double round = 0x1.8p52; /* added to a number, its last bits are the nearest integer */
    double floored = x < -708.0 ? -708.0 : x;
    double shifted = floored * 0x1.71547652b82fep0 + round;
    double n = shifted - round;
    double r = floored - n * 0x1.62e42fee00000p-1 - n * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    double power = from_bits((to_bits(shifted) + 1023) << 52);
    return x < -708.0 ? 0.0 : p * power;
}

INLINE float exponential_float(float x)
{
    const float round = 0x1.8p23f;
    float floored = x < -87.0f ? -87.0f : x;
    float shifted = floored * 1.44269504f + round;
    float n = shifted - round;
    float r = floored - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0.0f : p * power;
}

/* log(x) for x > NOTHING: the exponent, and the series of artanh on the mantissa. */
INLINE double logarithm(double x)
{
    const uint64_t half_root = 0x3fe6a09e667f3bcdULL; /* the square root of 1/2 */
    uint64_t offset = to_bits(x) - half_root + (1023ULL << 52);
    double exponent = from_bits((offset >> 52) | 0x4330000000000000ULL) - 0x1p52 - 1023.0;
    double m = from_bits((offset & 0xfffffffffffffULL) + half_root);
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 2.0 / 23.0;
    p = p * z + 2.0 / 21.0;
    p = p * z + 2.0 / 19.0;
    p = p * z + 2.0 / 17.0;
    p = p * z + 2.0 / 15.0;
    p = p * z + 2.0 / 13.0;
    p = p * z + 2.0 / 11.0;
    p = p * z + 2.0 / 9.0;
    p = p * z + 2.0 / 7.0;
    p = p * z + 2.0 / 5.0;
    p = p * z + 2.0 / 3.0;
    p = p * z + 2.0;
    return exponent * 0x1.62e42fefa39efp-1 + s * p;
}

/* A logit of the calibrated model; what counts as nothing stays nothing at any temperature. */
INLINE double calibrated(double x, int is_logit, double sharpness)
{
    double fine = x > NOTHING ? x : 1.0;
    return (is_logit ? x : x > NOTHING ? logarithm(fine) : -INFINITY) * sharpness;
}
