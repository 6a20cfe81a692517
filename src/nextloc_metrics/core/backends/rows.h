/* The loops over one row of scores; included once for each width of a score.

   KEY is the signed integer of the width of a score, LARGEST its largest value, NAME(x) the name of
   x for this width, SCORE the type of scores, if C has it. Scores are compared by their keys:
   integers in the order of the scores, where -0 equals 0 and every NaN is the highest. */

static ALWAYS_INLINE KEY NAME(key)(KEY bits, KEY infinity)
{
    const KEY magnitude = bits & LARGEST;
    const KEY ordered = bits < 0 ? (KEY)-magnitude : magnitude;
    return magnitude > infinity ? LARGEST : ordered;
}

/* Write the keys of up to BLOCK scores, and return the highest. With `bins`, those of the scores, a
   score of another bin than `wanted` has the lowest key. */
static ALWAYS_INLINE KEY NAME(read_keys)(const KEY *row, int64_t number, KEY infinity,
                                         const KEY *bins, KEY wanted, KEY *keys)
{
    KEY highest = -LARGEST;
    for (int64_t i = 0; i < number; i++)
        keys[i] = NAME(key)(row[i], infinity);
    for (int64_t i = 0; bins && i < number; i++)
        keys[i] = bins[i] == wanted ? keys[i] : -LARGEST;
    for (int64_t i = 0; i < number; i++) /* a separate loop, or GCC does not vectorise */
        highest = keys[i] > highest ? keys[i] : highest;
    return highest;
}

/* Count the scores above and tied with each of `width` scores, and return the first index of the
   highest score. For a NaN, `above` is all columns and `tied` is 0. */
static ALWAYS_INLINE int64_t NAME(survey_row)(const KEY *row, int64_t columns, KEY infinity,
                                              const KEY *own, int64_t width,
                                              int64_t *above, int64_t *tied)
{
    KEY keys[BLOCK];
    KEY highest = -LARGEST;
    int64_t best_block = 0, best;
    for (int64_t j = 0; j < width; j++) {
        above[j] = NAME(key)(own[j], infinity) == LARGEST ? columns : 0;
        tied[j] = 0;
    }
    for (int64_t start = 0; start < columns; start += BLOCK) {
        const int64_t number = columns - start < BLOCK ? columns - start : BLOCK;
        const KEY highest_here = NAME(read_keys)(row + start, number, infinity, NULL, 0, keys);
        if (highest_here > highest) {
            highest = highest_here;
            best_block = start;
        }
        for (int64_t j = 0; j < width; j++) {
            const KEY at = NAME(key)(own[j], infinity);
            KEY higher = 0, same = 0; /* of the width of keys, so that the loop vectorises */
            if (at == LARGEST)
                continue;
            for (int64_t i = 0; i < number; i++) {
                higher += keys[i] > at;
                same += keys[i] == at;
            }
            above[j] += higher;
            tied[j] += same;
        }
    }
    for (best = best_block; NAME(key)(row[best], infinity) != highest; best++)
        ;
    return best;
}

#ifdef SCORE
/* Do what `survey_row` does without the best candidate: numbers are compared, in fewer steps than
   keys. A NaN compares false with everything. */
static ALWAYS_INLINE void NAME(count_row)(const SCORE *row, int64_t columns, const SCORE *own,
                                          int64_t width, int64_t *above, int64_t *tied)
{
    for (int64_t j = 0; j < width; j++)
        above[j] = tied[j] = 0;
    for (int64_t start = 0; start < columns; start += BLOCK) {
        const int64_t number = columns - start < BLOCK ? columns - start : BLOCK;
        for (int64_t j = 0; j < width; j++) {
            const SCORE at = own[j];
            KEY higher = 0, same = 0; /* of the width of scores, so that the loop vectorises */
            for (int64_t i = start; i < start + number; i++) {
                higher += !(row[i] <= at);
                same += row[i] == at;
            }
            above[j] += higher;
            tied[j] += same;
        }
    }
}
#endif

/* Add a key to those kept in falling order, equal ones by id; of `number` the last one leaves. */
static ALWAYS_INLINE int64_t NAME(keep)(KEY *kept, int64_t *ids, int64_t size, int64_t number,
                                        KEY key, int64_t id)
{
    if (size == number && (key < kept[size - 1] || (key == kept[size - 1] && id > ids[size - 1])))
        return size;
    size += size < number;
    int64_t at = size - 1;
    for (; at > 0 && (kept[at - 1] < key || (kept[at - 1] == key && ids[at - 1] > id)); at--) {
        kept[at] = kept[at - 1];
        ids[at] = ids[at - 1];
    }
    kept[at] = key;
    ids[at] = id;
    return size;
}

/* Find the first `number` candidates by score and id, of a bin as in `read_keys`, and their keys.
   They are in the groups of scores whose highest are the first `number`: only these are searched,
   and none whose highest comes after the last one found. */
static ALWAYS_INLINE void NAME(first_of_row)(const KEY *row, int64_t columns, KEY infinity,
                                             const KEY *bins, KEY wanted, int64_t number,
                                             int64_t *first, KEY *kept)
{
    KEY keys[GROUP], highest[MOST_FIRST];
    int64_t groups[MOST_FIRST], found = 0, size = 0;
    for (int64_t start = 0; start < columns; start += GROUP) {
        const int64_t here = columns - start < GROUP ? columns - start : GROUP;
        const KEY best = NAME(read_keys)(row + start, here, infinity, bins ? bins + start : NULL,
                                         wanted, keys);
        found = NAME(keep)(highest, groups, found, number, best, start);
    }
    const KEY lowest = found < number ? -LARGEST : highest[number - 1];
    for (int64_t j = 0; j < found; j++) {
        const int64_t start = groups[j];
        if (size == number && (highest[j] < kept[size - 1] ||
                               (highest[j] == kept[size - 1] && start > first[size - 1])))
            break;
        const int64_t here = columns - start < GROUP ? columns - start : GROUP;
        NAME(read_keys)(row + start, here, infinity, bins ? bins + start : NULL, wanted, keys);
        for (int64_t i = 0; i < here; i++)
            if (keys[i] >= lowest)
                size = NAME(keep)(kept, first, size, number, keys[i], start + i);
    }
}

ROWS void NAME(survey_rows)(void *about, int64_t begin, int64_t end)
{
    const Survey *survey = about;
    const Scores *scores = &survey->scores;
    for (int64_t i = begin; i < end; i++) {
        const KEY *row = (const KEY *)scores->start + i * scores->stride;
        const KEY *own = (const KEY *)survey->own + i * survey->width;
        int64_t *above = survey->above + i * survey->width, *tied = survey->tied + i * survey->width;
#ifdef SCORE
        if (!survey->best) {
            NAME(count_row)((const SCORE *)row, scores->columns, (const SCORE *)own, survey->width,
                            above, tied);
            continue;
        }
#endif
        const int64_t best = NAME(survey_row)(row, scores->columns, (KEY)scores->infinity, own,
                                              survey->width, above, tied);
        if (survey->best)
            survey->best[i] = best;
    }
}

ROWS void NAME(top_of_rows)(void *about, int64_t begin, int64_t end)
{
    const Top *top = about;
    const Scores *scores = &top->scores;
    const KEY infinity = (KEY)scores->infinity;
    KEY kept[MOST_FIRST];
    for (int64_t i = begin; i < end; i++)
        NAME(first_of_row)((const KEY *)scores->start + i * scores->stride, scores->columns,
                           infinity, NULL, 0, top->number, top->ids + i * top->number, kept);
}

/* Count the keys above, and those tied with, one key, of a bin as in `read_keys`. */
static ALWAYS_INLINE void NAME(count_keys)(const KEY *row, int64_t columns, KEY infinity,
                                           const KEY *bins, KEY wanted, KEY at, int64_t *above,
                                           int64_t *tied)
{
    KEY keys[BLOCK];
    *above = *tied = 0;
    for (int64_t start = 0; start < columns; start += BLOCK) {
        const int64_t number = columns - start < BLOCK ? columns - start : BLOCK;
        KEY higher = 0, same = 0; /* of the width of keys, so that the loop vectorises */
        NAME(read_keys)(row + start, number, infinity, bins ? bins + start : NULL, wanted, keys);
        for (int64_t i = 0; i < number; i++) {
            higher += keys[i] > at;
            same += keys[i] == at;
        }
        *above += higher;
        *tied += same;
    }
}

/* Return how many of a bin's first `most` candidates are among the first `candidates` of all. */
static ALWAYS_INLINE int64_t NAME(length_of_bin)(const KEY *row, int64_t columns, KEY infinity,
                                                 const KEY *bins, KEY wanted, int64_t most,
                                                 int64_t candidates)
{
    KEY kept[MOST_FIRST];
    int64_t ids[MOST_FIRST], above, tied, length = 0, end = most < columns ? most : columns;
    NAME(first_of_row)(row, columns, infinity, bins, wanted, end, ids, kept);
    while (end && kept[end - 1] <= -infinity)
        end--;
    for (int64_t next = end; length < end; next = (length + end + 1) / 2) { /* the last one first */
        NAME(count_keys)(row, columns, infinity, NULL, 0, kept[next - 1], &above, &tied);
        if (above + tied <= candidates)
            length = next;
        else
            end = next - 1;
    }
    return length;
}

ROWS void NAME(bin_rows)(void *about, int64_t begin, int64_t end)
{
    const Bins *bins = about;
    const Scores *scores = &bins->scores;
    const KEY infinity = (KEY)scores->infinity, *of_columns = bins->of_columns;
    for (int64_t i = begin; i < end; i++) {
        const KEY *row = (const KEY *)scores->start + i * scores->stride;
        const KEY wanted = (KEY)bins->of_rows[i];
        bins->above[i] = bins->tied[i] = bins->lengths[i] = 0;
        if (bins->of_rows[i] < 0)
            continue;
        if (bins->most)
            bins->lengths[i] = NAME(length_of_bin)(row, scores->columns, infinity, of_columns,
                                                   wanted, bins->most, bins->candidates);
        else
            NAME(count_keys)(row, scores->columns, infinity, of_columns, wanted,
                             NAME(key)(((const KEY *)bins->own)[i], infinity), &bins->above[i],
                             &bins->tied[i]);
    }
}

ROWS void NAME(tally_rows)(void *about, int64_t begin, int64_t end)
{
    const Tally *tally = about;
    const Scores *scores = &tally->scores;
    int64_t sums[3 * MOST_FORMULAS] = {0};
    for (int64_t i = begin; i < end; i++) {
        const KEY *row = (const KEY *)scores->start + i * scores->stride;
        const int64_t target = tally->targets[i];
        const KEY infinity = (KEY)scores->infinity;
        int64_t above, tied;
        if (tally->ignores && target == tally->ignored)
            continue;
        const int64_t best = NAME(survey_row)(row, scores->columns, infinity, row + target, 1,
                                              &above, &tied);
        const KEY own = NAME(key)(row[target], infinity);
        if (own == LARGEST || own == -infinity)
            above = UNRETRIEVED, tied = 1;
        add_scores(tally, above, tied, sums);
        if (tally->decisions) {
            const KEY highest = NAME(key)(row[best], infinity);
            add_decision(tally->decisions, tally->num_locations, target, highest == LARGEST || highest == -infinity ? -1 : best);
        }
    }
    for (int64_t j = 0; j < 3 * tally->num_formulas; j++)
        ADD(&tally->sums[j], sums[j]);
}
