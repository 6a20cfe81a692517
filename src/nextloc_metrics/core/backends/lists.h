/* The sums of formulas over lists of ids. */

enum { FIRST = 0, ALL = 1 }; /* what a formula sums; 2 for precisions */
enum { WIDEST = 1 << 6 };    /* the relevant ids of a query; a power of two */
enum { LONGEST = 1 << 12 };  /* a list */

typedef struct {
    const int64_t *lists, *ids;
    int64_t length, width;
    const int64_t *formulas; /* [num_formulas, 3]: the start of its weight, the last rank, the kind */
    int64_t num_formulas;
    const double *table, *divisors; /* [num_formulas, width + 1], by the number of relevant ids */
    int64_t *sums;                  /* [num_formulas, 3] */
    int64_t num_locations, *decisions; /* [3, num_locations]; the last takes ids of no location */
    int64_t misplaced;
} TallyLists;

typedef struct {
    const int64_t *lists;
    int64_t length, repeats; /* whether a list may be one of mostly repeats */
} Repeats;

/* Count the different ids of each list, or fewer: by their last 12 bits. */
ROWS void repeat_rows(void *about, int64_t begin, int64_t end)
{
    Repeats *repeats = about;
    for (int64_t i = begin; i < end; i++) {
        const int64_t *list = repeats->lists + i * repeats->length;
        uint64_t seen[LONGEST / 64] = {0};
        int64_t entries = 0, different = 0;
        for (int64_t rank = 0; rank < repeats->length; rank++) {
            uint64_t *word = &seen[(list[rank] & (LONGEST - 1)) >> 6];
            const uint64_t bit = (uint64_t)1 << (list[rank] & 63);
            entries += list[rank] >= 0;
            different += list[rank] >= 0 && !(*word & bit);
            *word |= list[rank] >= 0 ? bit : 0;
        }
        if (2 * (entries - different) > entries)
            repeats->repeats = 1;
    }
}

/* Find the ranks before those of relevant ids, rising; return how many are relevant, and 0 where
   there is none, one repeats, or a number is no id. */
static ALWAYS_INLINE int64_t find_ranks(const int64_t *list, int64_t length, const int64_t *ids,
                                        int64_t width, int64_t *above, int64_t *found)
{
    int64_t wanted[WIDEST], number = 0;
    for (int64_t j = 0; j < width; j++) {
        for (int64_t other = 0; other < number; other++)
            if (ids[j] == wanted[other])
                return 0;
        if (ids[j] < -1)
            return 0;
        if (ids[j] >= 0)
            wanted[number++] = ids[j];
    }
    *found = 0;
    for (int64_t rank = 0; rank < length; rank++) {
        if (list[rank] < -1)
            return 0;
        for (int64_t j = 0; j < number; j++)
            if (list[rank] == wanted[j] && list[rank] >= 0) {
                above[(*found)++] = rank;
                wanted[j] = -1;
            }
    }
    return number;
}

/* Sum the weights of the first ranks in the order of `row_sum`: halves of a power of two. */
static ALWAYS_INLINE double score_list(const TallyLists *tally, const int64_t *formula,
                                       const int64_t *above, int64_t found)
{
    const double *table = tally->table + formula[0];
    const int64_t last = formula[1], kind = formula[2];
    double values[WIDEST];
    int64_t size = 1;
    found = kind == FIRST && found > 1 ? 1 : found;
    while (size < found)
        size *= 2;
    for (int64_t j = 0; j < size; j++) {
        values[j] = 0;
        if (j < found && above[j] < last)
            values[j] = (table[above[j] + 1] - table[above[j]]) * (kind <= ALL ? 1 : (double)(j + 1));
    }
    for (size /= 2; size; size /= 2)
        for (int64_t j = 0; j < size; j++)
            values[j] += values[j + size];
    return values[0];
}

/* Add the scores of so many queries with equal ranks to the sums of every formula. */
static ALWAYS_INLINE void add_list(const TallyLists *tally, const int64_t *above, int64_t found,
                                   int64_t relevant, int64_t queries, int64_t *sums)
{
    for (int64_t j = 0; j < tally->num_formulas; j++) {
        int64_t of_one[3] = {0};
        double score = score_list(tally, tally->formulas + 3 * j, above, found);
        score /= tally->divisors[j * (tally->width + 1) + relevant];
        add_score(score < 1 ? score : 1, of_one);
        for (int64_t i = 0; i < 3; i++)
            sums[3 * j + i] += queries * of_one[i];
    }
}

/* With one relevant id a query, count the ranks, and score each rank once. */
ROWS void tally_one_id_rows(void *about, int64_t begin, int64_t end)
{
    TallyLists *tally = about;
    const int64_t length = tally->length, last = tally->num_locations - 1;
    int64_t sums[3 * MOST_FORMULAS] = {0}, queries[LONGEST + 1]; /* by rank; then without one */
    memset(queries, 0, (size_t)(length + 1) * sizeof *queries);
    for (int64_t i = begin; i < end; i++) {
        const int64_t *list = tally->lists + i * length, id = tally->ids[i];
        int64_t above = length, wrong = id < 0 || (tally->decisions && id >= last);
        for (int64_t rank = 0; rank < length; rank++) {
            const int64_t here = list[rank] == id ? rank : length;
            above = here < above ? here : above;
            wrong |= list[rank] < -1;
        }
        if (wrong) {
            tally->misplaced = 1;
            return;
        }
        queries[above]++;
        if (tally->decisions)
            add_decision(tally->decisions, last + 1, id, list[0] < last ? list[0] : last);
    }
    for (int64_t above = 0; above <= length; above++)
        if (queries[above])
            add_list(tally, &above, above < length, 1, queries[above], sums);
    for (int64_t j = 0; j < 3 * tally->num_formulas; j++)
        ADD(&tally->sums[j], sums[j]);
}

ROWS void tally_list_rows(void *about, int64_t begin, int64_t end)
{
    TallyLists *tally = about;
    int64_t sums[3 * MOST_FORMULAS] = {0}, above[WIDEST], found;
    for (int64_t i = begin; i < end; i++) {
        const int64_t number = find_ranks(tally->lists + i * tally->length, tally->length,
                                          tally->ids + i * tally->width, tally->width, above, &found);
        if (!number) {
            tally->misplaced = 1;
            return;
        }
        add_list(tally, above, found, number, 1, sums);
    }
    for (int64_t j = 0; j < 3 * tally->num_formulas; j++)
        ADD(&tally->sums[j], sums[j]);
}
