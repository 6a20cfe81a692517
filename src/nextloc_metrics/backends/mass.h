/* The loops over one row of weights: probabilities up to a factor. `mass.py` is the definition.

   The weight of a score s is exp((s - highest) / temperature), or s over a power of two if scores
   are probabilities; at most 1. Weights are added as integers, so that the order of additions, and
   with it the number of lanes, threads and rows, changes no bit of a sum. */

enum { FLOAT64, FLOAT32, BFLOAT16, FLOAT16 };
enum { CELL_BITS = 10, CELLS = 1 << CELL_BITS };
enum { FIRST_SHIFT = 48 }; /* of bits of a double: 16 cells for each power of two */

static const double EDGE = 1e-9;      /* a set reaches a mass if no more than this is missing */
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
    double *sums;  /* [rows, 6]: highest score; sum of weights, of squares, of those above the
                      target; the target's weight, and log of its probability */
    int64_t *tied; /* [rows]: scores equal to the target's */
} Weigh;

typedef struct {
    Weights weights;
    const double *sums; /* of Weigh */
    const double *masses;
    int64_t num_masses, *sizes; /* [rows, num_masses] */
} Gather;

typedef struct {
    Weights weights;
    const double *sums; /* of Weigh */
    double *shares;     /* [rows, columns] */
} Spread;

typedef struct {
    int64_t high, low; /* units of 2^-31 and 2^-62 */
} Sum;

typedef struct {
    Sum mass;
    int64_t count, least, most; /* the least and the highest weight, but not in the first round */
} Cell;

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

/* Add a number of units of 2^-51, several times. */
static ALWAYS_INLINE Sum add_units(Sum sum, int64_t units, int64_t times)
{
    sum.high += times * (units >> 20);
    sum.low += times * ((units & 0xFFFFF) << 11);
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
        double scores[BLOCK], weight[BLOCK], own, highest, *found = weigh->sums + 6 * row;
        Sum sum = {0, 0}, squares = {0, 0}, above = {0, 0};
        load(weights, row, target, 1, &own);
        load(weights, row, best, 1, &highest);
        const double factor = factor_of(weights, highest), apart = own - highest;
        const int is_finite = highest - highest == 0.0;
        for (int64_t first = 0; is_finite && first < weights->columns; first += BLOCK) {
            const int64_t number =
                load_weights(weights, row, first, highest, factor, scores, weight);
            int64_t total = 0, total_of_squares = 0, total_above = 0; /* of a block: below 2^63 */
            for (int64_t i = 0; i < number; i++) {
                const int64_t units = units_of(weight[i]);
                total += units;
                total_of_squares += units_of(weight[i] * weight[i]);
                total_above += scores[i] > own ? units : 0;
            }
            squares = add_units(squares, total_of_squares, 1);
            above = add_units(above, total_above, 1);
            if (!weights->are_weights)
                sum = add_units(sum, total, 1);
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
        found[3] = value_of(above);
        found[4] = mine;
        found[5] = total > 0.0 ? log_of_mine - log_of(total) : -float_of(EXPONENT);
    }
}

ROWS void spread_rows(void *about, int64_t begin, int64_t end)
{
    const Spread *spread = about;
    const Weights *weights = &spread->weights;
    for (int64_t row = begin; row < end; row++) {
        const double highest = spread->sums[6 * row], total = spread->sums[6 * row + 1];
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

/* Sort weights by their bits into cells, from `top` down; each is 2^shift wide. */
static ALWAYS_INLINE void fill_cells(const Weights *weights, int64_t row, double highest,
                                     int64_t top, int shift, int is_first, Cell *cells)
{
    const double factor = factor_of(weights, highest);
    memset(cells, 0, CELLS * sizeof *cells);
    for (int64_t first = 0; first < weights->columns; first += BLOCK) {
        double scores[BLOCK], weight[BLOCK];
        const int64_t number = load_weights(weights, row, first, highest, factor, scores, weight);
        for (int64_t i = 0; i < number; i++) {
            const uint64_t at = (uint64_t)(top - bits_of(weight[i])) >> shift;
            if (at >= CELLS)
                continue;
            const int64_t units = units_of(weight[i]);
            Cell *cell = cells + at;
            cell->mass = add_units(cell->mass, units, 1);
            if (!is_first) {
                cell->least = cell->count && cell->least < units ? cell->least : units;
                cell->most = cell->count && cell->most > units ? cell->most : units;
            }
            cell->count++;
        }
    }
}

/* How many of the highest weights have a sum of at least `wanted`.

   Weights are sorted into cells, from the highest down; the next round looks into the cell in which
   the sum reaches `wanted`, until its weights are equal. The cells of the first round are given. */
static ALWAYS_INLINE int64_t size_of_set(const Weights *weights, int64_t row, double highest,
                                         double wanted, const Cell *first, Cell *cells)
{
    const Cell *cell = first, *last = first + CELLS;
    Sum reached = {0, 0};
    int64_t top = bits_of(1.0), before = 0, least = 1, most;
    for (int shift = FIRST_SHIFT;; shift = shift > CELL_BITS ? shift - CELL_BITS : 0) {
        for (; cell < last; cell++) {
            const Sum sum = {reached.high + cell->mass.high, reached.low + cell->mass.low};
            if (cell->count && value_of(sum) >= wanted)
                break;
            reached = sum;
            before += cell->count;
        }
        if (cell == last)
            return weights->columns;
        if (shift < FIRST_SHIFT && cell->least == cell->most)
            break;
        top -= (int64_t)((uint64_t)(cell - (last - CELLS)) << shift);
        fill_cells(weights, row, highest, top, shift > CELL_BITS ? shift - CELL_BITS : 0, 0, cells);
        cell = cells;
        last = cells + CELLS;
    }
    for (most = cell->count; least < most;) { /* by halves: how many of the equal ones */
        const int64_t middle = (least + most) / 2;
        if (value_of(add_units(reached, cell->most, middle)) >= wanted)
            most = middle;
        else
            least = middle + 1;
    }
    return before + least;
}

ROWS void gather_rows(void *about, int64_t begin, int64_t end)
{
    const Gather *gather = about;
    const Weights *weights = &gather->weights;
    Cell first[CELLS], cells[CELLS];
    for (int64_t row = begin; row < end; row++) {
        const double highest = gather->sums[6 * row], total = gather->sums[6 * row + 1];
        int64_t *sizes = gather->sizes + row * gather->num_masses;
        if (total > 0.0)
            fill_cells(weights, row, highest, bits_of(1.0), FIRST_SHIFT, 1, first);
        for (int64_t j = 0; j < gather->num_masses; j++)
            sizes[j] = total > 0.0 ? size_of_set(weights, row, highest,
                                                 (gather->masses[j] - EDGE) * total, first, cells)
                                   : weights->columns;
    }
}
