/* The loops over a pair of sequences of points. `sequences.py` has the same operations in the same
   order in NumPy, so that both give the same bits: only +, -, *, / and sqrt, which are rounded
   correctly everywhere. The exponential and the arc sine are computed from tables for that reason. */

enum { POWERS = 256, SINES = 25 }; /* entries of the tables */

static const double ROUND = 6755399441055744.0; /* 1.5 * 2^52: x + ROUND - ROUND is an integer */
static const double CUT = 98304.0;              /* 1.5 * 2^16: the same for multiples of 2^-36 */
static const double LOWEST_EXPONENT = -708.0;   /* exp(x) counts as 0 below */

typedef struct {
    const double *first, *second; /* [pairs, length, dimensions] */
    const int64_t *first_length, *second_length;
    int64_t first_width, second_width, dimensions;
    const double *table; /* 2^(i/256) in two parts, the series of asin, log2 and pi / 2 */
    int64_t failed;      /* how many parts found no memory */
    double diameter;     /* of the sphere of points in three dimensions; 0 on a plane */
} Pairs;

typedef struct {
    Pairs pairs;
    int64_t most, optimal; /* the longest n-gram; the kind of matching */
    double *sums;          /* [pairs, most] */
    double beta, scale;
} Ngrams;

typedef struct {
    Pairs pairs;
    int64_t window, free_start; /* no window if below 0 */
    double *found;              /* [pairs] */
} Align;

/* The exponential of a number up to 0, correctly rounded but for about one in a million. */
static ALWAYS_INLINE double exponential(double x, const double *table)
{
    const double *constants = table + 2 * POWERS + SINES;
    const double kept = x < LOWEST_EXPONENT ? LOWEST_EXPONENT : x;
    const double k = (kept * constants[0] + ROUND) - ROUND;
    const double near = kept - k * constants[1], step = k * constants[2];
    const double r = near - step, back = r - near;
    const double lost = (near - (r - back)) - (step + back); /* by rounding r */
    const double series = 0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720))));
    const double head = (r + CUT) - CUT, rest = (r - head) + (r * r * series + lost);
    const int64_t number = (int64_t)k;
    const double high = table[2 * (number & (POWERS - 1))];
    const double low = table[2 * (number & (POWERS - 1)) + 1];
    const double product = high * head, sum = high + product;
    const double error = (product - (sum - high)) + (high * rest + low * (1.0 + (head + rest)));
    const int64_t bits = ((number - (number & (POWERS - 1))) / POWERS + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x < LOWEST_EXPONENT ? 0.0 : (sum + error) * power;
}

/* Twice the arc sine of half of a chord, times the radius: a distance on the sphere. */
static ALWAYS_INLINE double arc(double chord, double diameter, const double *table)
{
    const double *series = table + 2 * POWERS, half = chord / 2;
    const double sine = half < 1.0 ? half : 1.0;
    const int is_small = sine <= 0.5;
    const double z = is_small ? sine * sine : (1.0 - sine) / 2;
    const double root = is_small ? sine : sqrt(z);
    double sum = series[SINES - 1];
    for (int i = SINES - 2; i >= 0; i--)
        sum = sum * z + series[i];
    const double angle = root * sum;
    return diameter * (is_small ? angle : series[SINES + 3] - 2.0 * angle);
}

/* Write the distances from one point to `number` points. */
static ALWAYS_INLINE void find_distances(const Pairs *pairs, const double *point,
                                         const double *others, int64_t number, double *found)
{
    if (pairs->dimensions == 2) {
        for (int64_t j = 0; j < number; j++) {
            const double x = others[2 * j] - point[0], y = others[2 * j + 1] - point[1];
            found[j] = sqrt(x * x + y * y);
        }
        return;
    }
    for (int64_t j = 0; j < number; j++) {
        const double x = others[3 * j] - point[0], y = others[3 * j + 1] - point[1];
        const double z = others[3 * j + 2] - point[2];
        found[j] = arc(sqrt(x * x + y * y + z * z), pairs->diameter, pairs->table);
    }
}

static ALWAYS_INLINE double smaller(double a, double b) { return a < b ? a : b; }

/* The least sum of distances along a path, by dynamic programming; `previous` and `current` have
   one more element than the second sequence, `apart` as many. */
static ALWAYS_INLINE double align_pair(const Align *align, const double *first, int64_t rows,
                                       const double *second, int64_t columns, double *previous,
                                       double *current, double *apart)
{
    const int64_t dimensions = align->pairs.dimensions;
    const int64_t excess = rows > columns ? rows - columns : columns - rows;
    const int64_t reach = align->window < excess ? excess : align->window;
    for (int64_t j = 0; j <= columns; j++)
        previous[j] = j == 0 || align->free_start ? 0.0 : INFINITY;
    for (int64_t i = 0; i < rows; i++) {
        int64_t begin = 0, end = columns;
        current[0] = INFINITY;
        if (align->window >= 0) {
            begin = i - reach > 0 ? i - reach : 0;
            end = i + reach + 1 < columns ? i + reach + 1 : columns;
            for (int64_t j = 1; j <= columns; j++)
                current[j] = INFINITY;
        }
        find_distances(&align->pairs, first + i * dimensions, second + begin * dimensions,
                       end - begin, apart + begin);
        for (int64_t j = begin; j < end; j++)
            current[j + 1] = apart[j] + smaller(smaller(previous[j + 1], previous[j]), current[j]);
        double *last = previous;
        previous = current;
        current = last;
    }
    return previous[columns];
}

ROWS void align_rows(void *about, int64_t begin, int64_t end)
{
    Align *align = about;
    const Pairs *pairs = &align->pairs;
    const int64_t width = pairs->second_width + 1;
    double *scratch = malloc(3 * (size_t)width * sizeof *scratch);
    if (!scratch) {
        ADD(&align->pairs.failed, 1);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const double *first = pairs->first + i * pairs->first_width * pairs->dimensions;
        const double *second = pairs->second + i * pairs->second_width * pairs->dimensions;
        align->found[i] = align_pair(align, first, pairs->first_length[i], second,
                                     pairs->second_length[i], scratch, scratch + width,
                                     scratch + 2 * width);
    }
    free(scratch);
}

typedef struct {
    double *proximity, *product; /* of points, and of n-grams */
    uint64_t *keys[2];
    int64_t *order[2];
    double *row_price, *column_price, *slack; /* of the assignment, from index 1 */
    int64_t *owner, *from;
    char *row_taken, *column_taken;
} Scratch;

/* Order numbers by falling value, which are 0 or more, by their bits; equal ones keep their order.
   Return which of the two buffers holds the result. */
static int sort_falling(Scratch *scratch, int64_t number)
{
    static const int BYTES = 8;
    int64_t counts[8][256] = {{0}};
    int now = 0;
    for (int64_t i = 0; i < number; i++)
        for (int byte = 0; byte < BYTES; byte++)
            counts[byte][(scratch->keys[0][i] >> (8 * byte)) & 255]++;
    for (int byte = 0; byte < BYTES; byte++) {
        int64_t *count = counts[byte], start = 0;
        if (number && count[(scratch->keys[now][0] >> (8 * byte)) & 255] == number)
            continue; /* all have the same byte */
        for (int i = 255; i >= 0; i--) {
            const int64_t here = count[i];
            count[i] = start;
            start += here;
        }
        for (int64_t i = 0; i < number; i++) {
            const uint64_t key = scratch->keys[now][i];
            const int64_t at = count[(key >> (8 * byte)) & 255]++;
            scratch->keys[!now][at] = key;
            scratch->order[!now][at] = scratch->order[now][i];
        }
        now = !now;
    }
    return now;
}

/* Sum the proximities of n-grams that are matched one to one, the nearest first. */
static double match_greedily(Scratch *scratch, int64_t rows, int64_t columns, int64_t stride)
{
    const int64_t most = rows < columns ? rows : columns;
    double sum = 0;
    memset(scratch->row_taken, 0, (size_t)rows);
    memset(scratch->column_taken, 0, (size_t)columns);
    for (int64_t i = 0, at = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, at++) {
            memcpy(&scratch->keys[0][at], &scratch->product[i * stride + j], sizeof(uint64_t));
            scratch->order[0][at] = i * stride + j;
        }
    const int64_t *order = scratch->order[sort_falling(scratch, rows * columns)];
    for (int64_t at = 0, matched = 0; matched < most; at++) {
        const int64_t i = order[at] / stride, j = order[at] % stride;
        if (scratch->row_taken[i] || scratch->column_taken[j])
            continue;
        scratch->row_taken[i] = scratch->column_taken[j] = 1;
        sum += scratch->product[order[at]];
        matched++;
    }
    return sum;
}

/* Sum the proximities of n-grams that are matched one to one so that the sum is the largest: by
   shortest augmenting paths, one for each n-gram of the shorter sequence. */
static double match_optimally(Scratch *scratch, int64_t rows, int64_t columns, int64_t stride)
{
    const int is_wide = rows <= columns;
    const int64_t few = is_wide ? rows : columns, many = is_wide ? columns : rows;
    const int64_t down = is_wide ? stride : 1, across = is_wide ? 1 : stride;
    double *slack = scratch->slack, *column_price = scratch->column_price, sum = 0;
    int64_t *owner = scratch->owner, *from = scratch->from;
    for (int64_t i = 0; i <= few; i++)
        scratch->row_price[i] = 0;
    for (int64_t j = 0; j <= many; j++)
        column_price[j] = 0, owner[j] = 0;
    for (int64_t i = 1; i <= few; i++) {
        int64_t now = 0, next = 0;
        owner[0] = i;
        for (int64_t j = 0; j <= many; j++)
            slack[j] = INFINITY, scratch->column_taken[j] = 0;
        do {
            const int64_t row = owner[now];
            const double *product = scratch->product + (row - 1) * down;
            double least = INFINITY;
            scratch->column_taken[now] = 1;
            for (int64_t j = 1; j <= many; j++) {
                if (scratch->column_taken[j])
                    continue;
                const double cost =
                    -product[(j - 1) * across] - scratch->row_price[row] - column_price[j];
                if (cost < slack[j])
                    slack[j] = cost, from[j] = now;
                if (slack[j] < least)
                    least = slack[j], next = j;
            }
            for (int64_t j = 0; j <= many; j++)
                if (scratch->column_taken[j])
                    scratch->row_price[owner[j]] += least, column_price[j] -= least;
                else
                    slack[j] -= least;
            now = next;
        } while (owner[now]);
        for (; now; now = next) {
            next = from[now];
            owner[now] = owner[next];
        }
    }
    for (int64_t j = 1; j <= many; j++)
        if (owner[j])
            sum += scratch->product[(owner[j] - 1) * down + (j - 1) * across];
    return sum;
}

/* Fill the proximities of all pairs of points, and sum those of matched n-grams for each n. */
static ALWAYS_INLINE void match_pair(const Ngrams *ngrams, const double *first, int64_t rows,
                                     const double *second, int64_t columns, Scratch *scratch,
                                     double *sums)
{
    const Pairs *pairs = &ngrams->pairs;
    double *product = scratch->product;
    for (int64_t i = 0; i < rows; i++) {
        double *row = scratch->proximity + i * columns;
        find_distances(pairs, first + i * pairs->dimensions, second, columns, row);
        for (int64_t j = 0; j < columns; j++)
            product[i * columns + j] = row[j] =
                exponential(-ngrams->beta * (row[j] / ngrams->scale), pairs->table);
    }
    for (int64_t n = 1; n <= ngrams->most; n++) {
        const int64_t high = rows - n + 1, wide = columns - n + 1;
        sums[n - 1] = 0;
        if (high < 1 || wide < 1)
            continue;
        for (int64_t i = 0; n > 1 && i < high; i++)
            for (int64_t j = 0; j < wide; j++)
                product[i * columns + j] *= scratch->proximity[(i + n - 1) * columns + j + n - 1];
        sums[n - 1] = (ngrams->optimal ? match_optimally : match_greedily)(scratch, high, wide,
                                                                           columns);
    }
}

ROWS void match_rows(void *about, int64_t begin, int64_t end)
{
    Ngrams *ngrams = about;
    const Pairs *pairs = &ngrams->pairs;
    const size_t high = (size_t)pairs->first_width, wide = (size_t)pairs->second_width;
    const size_t all = high * wide, most = (high > wide ? high : wide) + 1;
    char *memory = malloc((6 * all + 5 * most) * sizeof(double) + 2 * most);
    if (!memory) {
        ADD(&ngrams->pairs.failed, 1);
        return;
    }
    double *numbers = (double *)memory;
    Scratch scratch = {
        .proximity = numbers,
        .product = numbers + all,
        .keys = {(uint64_t *)(numbers + 2 * all), (uint64_t *)(numbers + 3 * all)},
        .order = {(int64_t *)(numbers + 4 * all), (int64_t *)(numbers + 5 * all)},
        .row_price = numbers + 6 * all,
        .column_price = numbers + 6 * all + most,
        .slack = numbers + 6 * all + 2 * most,
        .owner = (int64_t *)(numbers + 6 * all + 3 * most),
        .from = (int64_t *)(numbers + 6 * all + 4 * most),
        .row_taken = (char *)(numbers + 6 * all + 5 * most),
        .column_taken = (char *)(numbers + 6 * all + 5 * most) + most,
    };
    for (int64_t i = begin; i < end; i++)
        match_pair(ngrams, pairs->first + i * pairs->first_width * pairs->dimensions,
                   pairs->first_length[i],
                   pairs->second + i * pairs->second_width * pairs->dimensions,
                   pairs->second_length[i], &scratch, ngrams->sums + i * ngrams->most);
    free(memory);
}
