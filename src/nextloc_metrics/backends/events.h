/* The loops over two sequences of events. `events.py` has the same in Python. */

typedef struct {
    const int64_t *first, *second; /* [rows, width], times */
    const int64_t *first_length, *second_length;
    int64_t first_width, second_width, failed;
} Moments;

typedef struct {
    Moments moments;
    const int64_t *first_place, *second_place;
    int64_t insert, delete, *found;
} Transport;

typedef struct {
    Moments moments;
    const int64_t *order;
    const uint64_t *thresholds;
    int64_t num_thresholds;
    char *matched; /* [rows, thresholds, first_width] */
} MatchEvents;

typedef struct {
    int64_t place, time;
} Event;

static ALWAYS_INLINE uint64_t time_between(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Write the events that may have a partner; return their number, and add the cost of others. */
static int64_t read_events(const int64_t *times, const int64_t *places, int64_t length,
                           Event *events, int64_t cost, int64_t *total)
{
    int64_t number = 0;
    for (int64_t i = 0; i < length; i++) {
        const int may = places[i] >= 0 && times[i] != INT64_MIN && times[i] != INT64_MAX;
        events[number] = (Event){places[i], times[i]};
        number += may;
        *total += !may && places[i] > -2 ? cost : 0;
    }
    return number;
}

/* Take the events of one place out, and write their times in rising order; return how many. */
static ALWAYS_INLINE int64_t take_place(int64_t place, Event *events, int64_t *number,
                                        int64_t *times)
{
    int64_t found = 0, left = 0;
    for (int64_t i = 0; i < *number; i++) {
        const Event event = events[i];
        times[found] = event.time, events[left] = event;
        found += event.place == place, left += event.place != place;
    }
    *number = left;
    for (int64_t i = 1, j; i < found; i++) {
        const int64_t time = times[i];
        for (j = i; j > 0 && times[j - 1] > time; j--)
            times[j] = times[j - 1];
        times[j] = time;
    }
    return found;
}

/* Align the events of one place by dynamic programming. */
static ALWAYS_INLINE int64_t align_times(const Transport *about, const int64_t *first, int64_t rows,
                                         const int64_t *second, int64_t columns, int64_t *row)
{
    const int64_t insert = about->insert, delete = about->delete, both = insert + delete;
    for (int64_t j = 0; j <= columns; j++)
        row[j] = j * insert;
    for (int64_t i = 0; i < rows; i++) {
        int64_t corner = row[0], left = row[0] += delete;
        for (int64_t j = 0; j < columns; j++) {
            const uint64_t apart = time_between(first[i], second[j]);
            const int64_t pair = corner + (apart < (uint64_t)both ? (int64_t)apart : both);
            corner = row[j + 1];
            const int64_t best = pair < corner + delete ? pair : corner + delete;
            left = row[j + 1] = best < left + insert ? best : left + insert;
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
        int64_t rows = read_events(moments->first + i * high, transport->first_place + i * high,
                                   moments->first_length[i], first, transport->delete, &total);
        int64_t columns = read_events(moments->second + i * wide, transport->second_place + i * wide,
                                      moments->second_length[i], second, transport->insert, &total);
        while (rows || columns) {
            const int64_t place = rows ? first->place : second->place;
            const int64_t here = take_place(place, first, &rows, one);
            const int64_t there = take_place(place, second, &columns, other);
            total += align_times(transport, one, here, other, there, row);
        }
        transport->found[i] = total;
    }
    free(first);
}

/* Match the first of the order first. The partners of an event are those from `low` to `high`,
   which both rise with time: so those `chosen`, in this order, can each take the first free one. */
static void match_row(const int64_t *first, int64_t rows, const int64_t *second, int64_t columns,
                      const int64_t *order, uint64_t threshold, int64_t *low, int64_t *high,
                      int64_t *chosen, char *matched)
{
    for (int64_t i = 0, a = 0, b = 0; i < rows; i++) {
        while (a < columns && second[a] < first[i] && time_between(second[a], first[i]) > threshold)
            a++;
        while (b < columns &&
               (second[b] <= first[i] || time_between(second[b], first[i]) <= threshold))
            b++;
        low[i] = a, high[i] = b;
    }
    for (int64_t k = 0, number = 0; k < rows && number < columns && order[k] >= 0; k++) {
        int64_t at = number, next = 0, fits = low[order[k]] < high[order[k]];
        if (!fits)
            continue;
        for (; at > 0 && chosen[at - 1] > order[k]; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = order[k];
        for (int64_t j = 0; j <= number && fits; j++) {
            next = (next > low[chosen[j]] ? next : low[chosen[j]]) + 1;
            fits = next <= high[chosen[j]];
        }
        for (; !fits && at < number; at++)
            chosen[at] = chosen[at + 1];
        number += fits;
        matched[order[k]] = (char)fits;
    }
}

ROWS void match_event_rows(void *about, int64_t begin, int64_t end)
{
    MatchEvents *match = about;
    const Moments *moments = &match->moments;
    const int64_t width = moments->first_width, space = width + 1;
    int64_t *low = malloc(3 * (size_t)space * sizeof *low);
    if (!low) {
        ADD(&match->moments.failed, 1);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        for (int64_t d = 0; d < match->num_thresholds; d++)
            match_row(moments->first + i * width, moments->first_length[i],
                      moments->second + i * moments->second_width, moments->second_length[i],
                      match->order + i * width, match->thresholds[d], low, low + space,
                      low + 2 * space, match->matched + (i * match->num_thresholds + d) * width);
    free(low);
}
