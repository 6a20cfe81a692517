/* The loops over two sequences of events. `events.py` has the same in Python. */

typedef struct {
    const int64_t *first, *second; /* [rows, width], times */
    const int64_t *first_place, *second_place;
    int64_t first_width, second_width, failed;
} Moments;

typedef struct {
    Moments moments;
    int64_t most, *found;
} Transport;

typedef struct {
    Moments moments;
    const double *scores; /* [rows, first_width, num_places]; or NULL */
    const uint64_t *thresholds;
    int64_t num_places, num_thresholds;
    int64_t *matched; /* [rows, first_width, num_places], sums of 2^d of thresholds */
} MatchEvents;

typedef struct {
    int64_t place, time;
} Event;

static ALWAYS_INLINE uint64_t time_between(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static ALWAYS_INLINE int has_time(int64_t time)
{
    return time != INT64_MIN && time != INT64_MAX;
}

/* Write the events that may have a partner; return their number. */
static int64_t read_events(const int64_t *times, const int64_t *places, int64_t length,
                           Event *events)
{
    int64_t number = 0;
    for (int64_t i = 0; i < length; i++) {
        events[number].place = places[i];
        events[number].time = times[i];
        number += places[i] >= 0 && has_time(times[i]);
    }
    return number;
}

/* Take the events of one place out, and write their times in rising order; return how many. */
static ALWAYS_INLINE int64_t take_place(int64_t place, Event *events, int64_t *number,
                                        int64_t *times)
{
    int64_t found = 0;
    for (int64_t i = 0; i < *number; i++) {
        const int64_t own = events[i].place, time = events[i].time;
        times[found] = time;
        events[i - found].place = own;
        events[i - found].time = time;
        found += own == place;
    }
    *number -= found;
    for (int64_t i = 1, j; i < found; i++) {
        const int64_t time = times[i];
        for (j = i; j > 0 && times[j - 1] > time; j--)
            times[j] = times[j - 1];
        times[j] = time;
    }
    return found;
}

/* Return the greatest sum of `most` minus the time between partners, by dynamic programming. */
static ALWAYS_INLINE int64_t align_times(uint64_t most, const int64_t *first, int64_t rows,
                                         const int64_t *second, int64_t columns, int64_t *row)
{
    for (int64_t j = 0; j <= columns; j++)
        row[j] = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t corner = 0, left = 0;
        for (int64_t j = 0; j < columns; j++) {
            const uint64_t apart = time_between(first[i], second[j]);
            const int64_t pair = corner + (int64_t)(most - (apart < most ? apart : most));
            corner = row[j + 1];
            const int64_t best = pair > corner ? pair : corner;
            left = row[j + 1] = best > left ? best : left;
        }
    }
    return row[columns];
}

ROWS void transport_rows(void *about, int64_t begin, int64_t end)
{
    Transport *transport = about;
    const Moments *moments = &transport->moments;
    const int64_t high = moments->first_width, wide = moments->second_width;
    Event *first = malloc((size_t)(high + wide + 2) * 2 * sizeof *first);
    if (!first) {
        ADD(&transport->moments.failed, 1);
        return;
    }
    Event *second = first + high + 1;
    int64_t *one = (int64_t *)(second + wide + 1), *other = one + high + 1;
    int64_t *row = other + wide + 1;
    for (int64_t i = begin; i < end; i++) {
        int64_t total = 0;
        int64_t rows = read_events(moments->first + i * high, moments->first_place + i * high, high,
                                   first);
        int64_t columns = read_events(moments->second + i * wide, moments->second_place + i * wide,
                                      wide, second);
        while (rows && columns) {
            const int64_t place = first->place;
            const int64_t here = take_place(place, first, &rows, one);
            const int64_t there = take_place(place, second, &columns, other);
            total += align_times((uint64_t)transport->most, one, here, other, there, row);
        }
        transport->found[i] = total;
    }
    free(first);
}

/* Give event `k` a partner if all that have one can keep one: each has the first free one, in order
   of time. Partners are from `low` to `high`, which both rise with time. */
static ALWAYS_INLINE int add_event(int64_t k, const int64_t *low, const int64_t *high,
                                   int64_t *taken)
{
    int64_t at = low[k], last = k;
    while (taken[at] >= 0) {
        last = last > taken[at] ? last : taken[at];
        if (++at >= high[last])
            return 0;
    }
    for (at = low[k]; taken[at] >= 0; at++) {
        const int64_t held = taken[at];
        taken[at] = held < k ? held : k;
        k = held < k ? k : held;
    }
    taken[at] = k;
    return 1;
}

/* The predictions of a place in a row, by time, and space for their matching. */
typedef struct {
    double *scores;
    int64_t *times, *columns, *order, *low, *high, *taken;
} Matching;

/* Write how many events are too early for each prediction, and how many are not too late. */
static ALWAYS_INLINE void find_partners(const int64_t *restrict times, int64_t rows,
                                        const int64_t *restrict second, int64_t columns,
                                        uint64_t most, int64_t *restrict low, int64_t *restrict high)
{
    for (int64_t k = 0; k < rows; k++)
        low[k] = high[k] = 0;
    for (int64_t j = 0; j < columns; j++) {
        const int ends = time_between(second[j], INT64_MAX) > most;
        const int64_t end = ends ? (int64_t)((uint64_t)second[j] + most) : INT64_MAX;
        const int begins = time_between(second[j], INT64_MIN) > most;
        const int64_t begin = begins ? (int64_t)((uint64_t)second[j] - most) : INT64_MIN;
        for (int64_t k = 0; k < rows; k++) {
            low[k] += end < times[k];
            high[k] += begin <= times[k];
        }
    }
}

/* Match the `rows` predictions, the highest score first, with the events at `second`. */
static ALWAYS_INLINE void match_place(const MatchEvents *match, const Matching *of, int64_t rows,
                                      const int64_t *second, int64_t columns,
                                      int64_t *matched)
{
    for (int64_t k = 0; k < rows; k++) {
        int64_t rank = 0;
        for (int64_t j = 0; j < k; j++)
            rank += of->scores[j] >= of->scores[k];
        for (int64_t j = k + 1; j < rows; j++)
            rank += of->scores[j] > of->scores[k];
        of->order[rank] = k;
    }
    for (int64_t d = 0; d < match->num_thresholds; d++) {
        find_partners(of->times, rows, second, columns, match->thresholds[d], of->low, of->high);
        for (int64_t j = 0; j < columns; j++)
            of->taken[j] = -1;
        for (int64_t j = 0, found = 0; j < rows && found < columns; j++) {
            const int64_t k = of->order[j];
            found += of->low[k] < of->high[k] && add_event(k, of->low, of->high, of->taken);
        }
        for (int64_t j = 0; j < columns; j++)
            if (of->taken[j] >= 0)
                matched[of->columns[of->taken[j]] * match->num_places] |= (int64_t)1 << d;
    }
}

ROWS void match_event_rows(void *about, int64_t begin, int64_t end)
{
    MatchEvents *match = about;
    const Moments *moments = &match->moments;
    const int64_t high = moments->first_width, wide = moments->second_width + 1;
    const int64_t number = match->num_places;
    int64_t *times = malloc((size_t)(7 * high + 4 * wide) * sizeof *times);
    if (!times) {
        ADD(&match->moments.failed, 1);
        return;
    }
    int64_t *columns = times + high, *by_time = times + 5 * high, *second = times + 7 * high + wide;
    const Matching of = {(double *)(times + 6 * high), times, columns, times + 2 * high,
                         times + 3 * high, times + 4 * high, times + 7 * high};
    Event *events = (Event *)(second + wide);
    for (int64_t i = begin; i < end; i++) {
        const int64_t *first = moments->first + i * high, *places = moments->first_place + i * high;
        const double *scores = match->scores ? match->scores + i * high * number : NULL;
        int64_t size = 0, left;
        for (int64_t j = 0, at; j < high; j++)
            if (places[j] > -2 && has_time(first[j])) {
                for (at = size++; at > 0 && first[by_time[at - 1]] > first[j]; at--)
                    by_time[at] = by_time[at - 1];
                by_time[at] = j;
            }
        left = read_events(moments->second + i * (wide - 1), moments->second_place + i * (wide - 1),
                           wide - 1, events);
        while (left) {
            const int64_t place = events->place, there = take_place(place, events, &left, second);
            const int64_t of_place = scores ? place : 0;
            int64_t rows = 0;
            for (int64_t k = 0; k < size && of_place < number; k++) {
                const int64_t j = by_time[k];
                of.scores[rows] = scores ? scores[j * number + place] : 0;
                of.times[rows] = first[j], columns[rows] = j;
                rows += scores ? of.scores[rows] > -INFINITY : places[j] == place;
            }
            match_place(match, &of, rows, second, there,
                        match->matched + i * high * number + of_place);
        }
    }
    free(times);
}
