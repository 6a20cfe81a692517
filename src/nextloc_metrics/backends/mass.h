/* The loops over one row of weights: probabilities up to a factor.

   The weight of a score s is exp((s - highest) / temperature), or s itself if scores are
   probabilities. Weights are added in LANES sums, then the sums in pairs: an order that depends on
   the length of the row alone. */

enum { FLOAT64, FLOAT32, BFLOAT16, FLOAT16 };
enum { LANES = 8, CELLS = 256 };

static const double EDGE = 1e-9;      /* a set reaches a mass if no more than this is missing */
static const double DEEPEST = 64.0;   /* exp(-64) of the highest weight never decides a set */

typedef struct {
    const void *start;
    int64_t rows, columns, stride; /* stride between rows; columns are contiguous */
    int64_t kind, are_weights;
    double inverse_temperature;
} Weights;

typedef struct {
    Weights weights;
    const int64_t *targets;
    double *sums;  /* [rows, 4]: highest score; sum of weights, of squares, of those above target */
    int64_t *tied; /* [rows]: scores equal to the target's */
} Weigh;

typedef struct {
    Weights weights;
    const double *sums; /* of Weigh */
    const double *masses;
    int64_t num_masses, *sizes; /* [rows, num_masses] */
} Gather;

static ALWAYS_INLINE double float_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* exp(x) for x <= 0, within 2^-34 of its value; 1 at 0, and 0 below -708. There is no branch, so that
   loops over it vectorise, and no fused operation, so that every processor gives the same bits. The
   coefficients were fitted here to minimise the largest relative error. */
static ALWAYS_INLINE double exp_of(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    const double inside = x < -708.0 ? -708.0 : x;
    const double shifted = inside * 1.4426950408889634 + shift;
    const double n = shifted - shift;
    const double r = (inside - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 0.00019767672164820914;
    int64_t bits, exponent;
    p = p * r + 0.0013945898004677703;
    p = p * r + 0.0083335688991578501;
    p = p * r + 0.041666272548245814;
    p = p * r + 0.16666665163785485;
    p = p * r + 0.50000000771471587;
    p = p * r + 1.000000000208598;
    p = p * r + 1.0;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&exponent, &shifted, sizeof exponent);
    p = float_of(bits + (int64_t)((uint64_t)exponent << 52));
    return x < -708.0 ? 0.0 : p;
}

static ALWAYS_INLINE double half_of(uint16_t bits)
{
    const int64_t magnitude = bits & 0x7FFF, exponent = magnitude >> 10;
    const int64_t wide = (magnitude << 42) + ((int64_t)(exponent == 31 ? 2047 - 31 : 1008) << 52);
    const double value = exponent ? float_of(wide) : (double)magnitude * 0x1p-24;
    return bits & 0x8000 ? -value : value;
}

/* Write scores as doubles; after the last one, `filling` up to a multiple of LANES. */
static ALWAYS_INLINE void load(const Weights *weights, int64_t row, int64_t first, int64_t number,
                               double filling, double *scores)
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
    for (int64_t i = number; i % LANES; i++)
        scores[i] = filling;
}

static ALWAYS_INLINE double pairwise(const double *lanes)
{
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
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

static ALWAYS_INLINE double weight_of(const Weights *weights, double score, double highest)
{
    return weights->are_weights ? score : exp_of((score - highest) * weights->inverse_temperature);
}

ROWS void weigh_rows(void *about, int64_t begin, int64_t end)
{
    const Weigh *weigh = about;
    const Weights *weights = &weigh->weights;
    const double infinity = float_of((int64_t)0x7FF << 52);
    const double lowest = weights->are_weights ? 0.0 : -infinity; /* a score of weight 0 */
    for (int64_t row = begin; row < end; row++) {
        const int64_t target = weigh->targets[row];
        const int64_t best = survey_own(weights, row, target, &weigh->tied[row]);
        double scores[BLOCK], weight[BLOCK], sums[LANES] = {0}, squares[LANES] = {0};
        double own, highest, above[LANES] = {0}, *found = weigh->sums + 4 * row;
        load(weights, row, target, 1, 0.0, scores);
        own = scores[0];
        load(weights, row, best, 1, 0.0, scores);
        highest = scores[0];
        for (int64_t first = 0; first < weights->columns; first += BLOCK) {
            const int64_t left = weights->columns - first, number = left < BLOCK ? left : BLOCK;
            const int64_t filled = (number + LANES - 1) / LANES * LANES;
            load(weights, row, first, number, lowest, scores);
            for (int64_t i = 0; i < filled; i++)
                weight[i] = weight_of(weights, scores[i], highest);
            for (int64_t i = 0; i < filled; i += LANES)
                for (int64_t l = 0; l < LANES; l++) {
                    sums[l] += weight[i + l];
                    squares[l] += weight[i + l] * weight[i + l];
                    above[l] += scores[i + l] > own ? weight[i + l] : 0.0;
                }
        }
        found[0] = highest < infinity && highest > -infinity ? highest : infinity - infinity;
        found[1] = pairwise(sums);
        found[2] = pairwise(squares);
        found[3] = pairwise(above);
    }
}

/* How many of the highest scores have a sum of weights of at least `target`.

   Scores between `bottom` and `top` are sorted into cells, from the highest down; the next round
   looks into the cell in which the sum reaches the target, until its scores are equal. */
static ALWAYS_INLINE int64_t size_of_set(const Weights *weights, int64_t row, double highest,
                                         double target)
{
    double top = highest, reached = 0.0, bottom = 0.0;
    int64_t before = 0;
    if (!weights->are_weights)
        bottom = highest - DEEPEST / weights->inverse_temperature;
    for (;;) {
        double scores[BLOCK], mass[CELLS] = {0}, low[CELLS], high[CELLS];
        int64_t count[CELLS] = {0}, cell = 0, size;
        const double factor = CELLS / (top - bottom);
        for (int64_t first = 0; first < weights->columns; first += BLOCK) {
            const int64_t left = weights->columns - first, number = left < BLOCK ? left : BLOCK;
            load(weights, row, first, number, 0.0, scores);
            for (int64_t i = 0; i < number; i++) {
                if (!(scores[i] >= bottom && scores[i] <= top))
                    continue;
                const double at = (top - scores[i]) * factor;
                const int64_t c = at < CELLS ? (int64_t)at : CELLS - 1;
                low[c] = count[c] && low[c] < scores[i] ? low[c] : scores[i];
                high[c] = count[c] && high[c] > scores[i] ? high[c] : scores[i];
                mass[c] += weight_of(weights, scores[i], highest);
                count[c]++;
            }
        }
        while (cell < CELLS - 1 && reached + mass[cell] < target) {
            reached += mass[cell];
            before += count[cell++];
        }
        if (count[cell] == 0)
            return before;
        if (!(CELLS / (high[cell] - low[cell]) < float_of((int64_t)0x7FF << 52))) { /* equal */
            const double share = (target - reached) / mass[cell] * (double)count[cell];
            size = share < (double)count[cell] ? (int64_t)share : count[cell];
            size += size < share && size < count[cell];
            return before + (size > 0 ? size : 1);
        }
        top = high[cell];
        bottom = low[cell];
    }
}

ROWS void gather_rows(void *about, int64_t begin, int64_t end)
{
    const Gather *gather = about;
    for (int64_t row = begin; row < end; row++)
        for (int64_t j = 0; j < gather->num_masses; j++) {
            const double highest = gather->sums[4 * row];
            gather->sizes[row * gather->num_masses + j] =
                highest == highest ? size_of_set(&gather->weights, row, highest,
                                                 (gather->masses[j] - EDGE) * gather->sums[4 * row + 1])
                                   : gather->weights.columns;
        }
}
