/* The loops over one row of weights: probabilities up to a factor. `mass.py` is the definition.

   The weight of a score s is exp((s - highest) / temperature), or s over a power of two if scores
   are probabilities; at most 1. Weights are added as integers, so that the order of additions, and
   with it the number of lanes, threads and rows, changes no bit of a sum. */

enum { FLOAT64, FLOAT32, BFLOAT16, FLOAT16 };

static const double LN2_HIGH = 0.693147180369123816490, LN2_LOW = 1.90821492927058770002e-10;
static const int64_t EXPONENT = (int64_t)0x7FF << 52; /* of a double; the bits of infinity */

typedef struct {
    const void *start;
    int64_t rows, columns, stride; /* stride between rows; columns are contiguous */
    int64_t kind, are_weights;
    double inverse_temperature;
} Weights;

typedef struct {
    Weights weights;
    const int64_t *targets;
    double *sums;  /* [rows, 5]: highest score; sum of weights, of squares; the target's weight,
                      and log of its probability */
    int64_t *tied; /* [rows]: scores equal to the target's */
} Weigh;

typedef struct {
    Weights weights;
    const double *sums; /* of Weigh */
    double *shares;     /* [rows, columns] */
} Spread;

typedef struct {
    int64_t high, low; /* units of 2^-31 and 2^-62 */
} Sum;

static ALWAYS_INLINE double float_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static ALWAYS_INLINE int64_t bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Round a number from 0 to 2 to units of 2^-51. */
static ALWAYS_INLINE int64_t units_of(double value)
{
    return bits_of(value + 2.0) - bits_of(2.0);
}

/* Add a number of units of 2^-51. */
static ALWAYS_INLINE Sum add_units(Sum sum, int64_t units)
{
    sum.high += units >> 20;
    sum.low += (units & 0xFFFFF) << 11;
    return sum;
}

static ALWAYS_INLINE double value_of(Sum sum)
{
    const int64_t high = sum.high + (sum.low >> 31), low = sum.low & 0x7FFFFFFF;
    return (double)high * 0x1p-31 + (double)low * 0x1p-62;
}

/* exp(x) for x <= 0, within 2^-34 of its value; 1 at 0, and 0 below -708. There is no branch, so
   that loops over it vectorise, and no fused operation, so that every processor gives the same
   bits. The coefficients were fitted here to minimise the largest relative error. */
static ALWAYS_INLINE double exp_of(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    const double inside = x < -708.0 ? -708.0 : x;
    const double shifted = inside * 1.4426950408889634 + shift;
    const double n = shifted - shift;
    const double r = (inside - n * LN2_HIGH) - n * LN2_LOW;
    double p = 0.00019767672164820914;
    p = p * r + 0.0013945898004677703;
    p = p * r + 0.0083335688991578501;
    p = p * r + 0.041666272548245814;
    p = p * r + 0.16666665163785485;
    p = p * r + 0.50000000771471587;
    p = p * r + 1.000000000208598;
    p = p * r + 1.0;
    p = float_of((int64_t)((uint64_t)bits_of(p) + ((uint64_t)bits_of(shifted) << 52)));
    return x < -708.0 ? 0.0 : p;
}

/* log(x) for x >= 0, within 2^-51 of its value. The mantissa m is between the roots of 1/2 and 2,
   and its logarithm the series of atanh((m - 1) / (m + 1)). */
static ALWAYS_INLINE double log_of(double x)
{
    const int is_tiny = x < 0x1p-1022;
    const int64_t bits = bits_of(is_tiny ? x * 0x1p54 : x);
    const int64_t exponent = (bits - bits_of(0.70710678118654752)) >> 52;
    const double m = float_of(bits - (int64_t)((uint64_t)exponent << 52));
    const double n = (double)(is_tiny ? exponent - 54 : exponent);
    const double f = (m - 1.0) / (m + 1.0), z = f * f;
    double p = 1.0 / 21.0;
    for (int i = 19; i > 1; i -= 2)
        p = p * z + 1.0 / i;
    p = n * LN2_HIGH + ((n * LN2_LOW + (f + f) * (z * p)) + (f + f));
    return x > 0.0 ? p : -float_of(EXPONENT);
}

static ALWAYS_INLINE double half_of(uint16_t bits)
{
    const int64_t magnitude = bits & 0x7FFF, exponent = magnitude >> 10;
    const int64_t wide = (magnitude << 42) + ((int64_t)(exponent == 31 ? 2047 - 31 : 1008) << 52);
    const double value = exponent ? float_of(wide) : (double)magnitude * 0x1p-24;
    return bits & 0x8000 ? -value : value;
}

/* Write scores as doubles. */
static ALWAYS_INLINE void load(const Weights *weights, int64_t row, int64_t first, int64_t number,
                               double *scores)
{
    const int64_t at = row * weights->stride + first;
    if (weights->kind == FLOAT64)
        for (int64_t i = 0; i < number; i++)
            scores[i] = ((const double *)weights->start)[at + i];
    else if (weights->kind == FLOAT32)
        for (int64_t i = 0; i < number; i++)
            scores[i] = ((const float *)weights->start)[at + i];
    else if (weights->kind == BFLOAT16)
        for (int64_t i = 0; i < number; i++) {
            const uint32_t bits = (uint32_t)((const uint16_t *)weights->start)[at + i] << 16;
            float value;
            memcpy(&value, &bits, sizeof value);
            scores[i] = value;
        }
    else
        for (int64_t i = 0; i < number; i++)
            scores[i] = half_of(((const uint16_t *)weights->start)[at + i]);
}

/* Find the first of the highest scores, and how many scores equal that of the target. */
static ALWAYS_INLINE int64_t survey_own(const Weights *weights, int64_t row, int64_t target,
                                        int64_t *tied)
{
    const int64_t at = row * weights->stride, columns = weights->columns;
    int64_t above;
    if (weights->kind == FLOAT64) {
        const int64_t *start = (const int64_t *)weights->start + at;
        return survey_row_64(start, columns, (int64_t)0x7FF << 52, start + target, 1, &above, tied);
    }
    if (weights->kind == FLOAT32) {
        const int32_t *start = (const int32_t *)weights->start + at;
        return survey_row_32(start, columns, 0xFF << 23, start + target, 1, &above, tied);
    }
    const int16_t *start = (const int16_t *)weights->start + at;
    const int16_t infinity = weights->kind == BFLOAT16 ? 0xFF << 7 : 0x1F << 10;
    return survey_row_16(start, columns, infinity, start + target, 1, &above, tied);
}

/* What scores are multiplied with: for probabilities the power of two that makes the highest weight
   at least 1/2, or less where there is none. */
static ALWAYS_INLINE double factor_of(const Weights *weights, double highest)
{
    if (!weights->are_weights)
        return weights->inverse_temperature;
    const uint64_t exponent = (uint64_t)(bits_of(highest) & EXPONENT) + ((uint64_t)1 << 52);
    return 1.0 / float_of((int64_t)exponent);
}

static ALWAYS_INLINE double weight_of(int64_t are_weights, double score, double highest,
                                      double factor)
{
    return are_weights ? (score > 0.0 ? score : 0.0) * factor : exp_of((score - highest) * factor);
}

/* Write the scores and the weights of up to BLOCK candidates, and return their number. */
static ALWAYS_INLINE int64_t load_weights(const Weights *weights, int64_t row, int64_t first,
                                          double highest, double factor, double *scores,
                                          double *weight)
{
    const int64_t left = weights->columns - first, number = left < BLOCK ? left : BLOCK;
    load(weights, row, first, number, scores);
    if (weights->are_weights)
        for (int64_t i = 0; i < number; i++)
            weight[i] = weight_of(1, scores[i], highest, factor);
    else
        for (int64_t i = 0; i < number; i++)
            weight[i] = weight_of(0, scores[i], highest, factor);
    return number;
}

ROWS void weigh_rows(void *about, int64_t begin, int64_t end)
{
    const Weigh *weigh = about;
    const Weights *weights = &weigh->weights;
    for (int64_t row = begin; row < end; row++) {
        const int64_t target = weigh->targets[row];
        const int64_t best = survey_own(weights, row, target, &weigh->tied[row]);
        double scores[BLOCK], weight[BLOCK], own, highest, *found = weigh->sums + 5 * row;
        Sum sum = {0, 0}, squares = {0, 0};
        load(weights, row, target, 1, &own);
        load(weights, row, best, 1, &highest);
        const double factor = factor_of(weights, highest), apart = own - highest;
        const int is_finite = highest - highest == 0.0;
        for (int64_t first = 0; is_finite && first < weights->columns; first += BLOCK) {
            const int64_t number =
                load_weights(weights, row, first, highest, factor, scores, weight);
            int64_t total = 0, total_of_squares = 0; /* of a block: below 2^63 */
            for (int64_t i = 0; i < number; i++) {
                total += units_of(weight[i]);
                total_of_squares += units_of(weight[i] * weight[i]);
            }
            squares = add_units(squares, total_of_squares);
            if (!weights->are_weights)
                sum = add_units(sum, total);
            else /* exactly: their sum is 1 */
                for (int64_t i = 0; i < number; i++) {
                    const int64_t units = (int64_t)(weight[i] * 0x1p62);
                    sum.high += units >> 31;
                    sum.low += units & 0x7FFFFFFF;
                }
        }
        const double total = value_of(sum);
        const double mine =
            total > 0.0 ? weight_of(weights->are_weights, own, highest, factor) : 0.0;
        const double log_of_mine = weights->are_weights ? log_of(mine) : apart * factor;
        found[0] = is_finite ? highest + 0.0 : highest - highest;
        found[1] = total;
        found[2] = value_of(squares);
        found[3] = mine;
        found[4] = total > 0.0 ? log_of_mine - log_of(total) : -float_of(EXPONENT);
    }
}

ROWS void spread_rows(void *about, int64_t begin, int64_t end)
{
    const Spread *spread = about;
    const Weights *weights = &spread->weights;
    for (int64_t row = begin; row < end; row++) {
        const double highest = spread->sums[5 * row], total = spread->sums[5 * row + 1];
        const double factor = factor_of(weights, highest);
        double scores[BLOCK], weight[BLOCK], *shares = spread->shares + row * weights->columns;
        for (int64_t first = 0; first < weights->columns; first += BLOCK) {
            const int64_t number =
                load_weights(weights, row, first, highest, factor, scores, weight);
            for (int64_t i = 0; i < number; i++)
                shares[first + i] = weight[i] / total;
        }
    }
}
