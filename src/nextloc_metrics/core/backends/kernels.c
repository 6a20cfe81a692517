/* Counting on the CPU in C. `cpu.py` calls it and declares the structures; `rows.h` has the loops
   over a row of scores, `lists.h` those over a list of ids.

   There is no global state, and no memory is allocated. The threads are those of the OpenMP that
   PyTorch has loaded: its entry point is an argument, so that nothing is linked. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

/* If the C library can choose at run time, loops are also compiled for wider registers. */
#if !defined(__GLIBC__) || !defined(__x86_64__) || defined(PLAIN)
#define ROWS static
#elif __GNUC__ >= 12
#define ROWS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"))) static
#else
#define ROWS __attribute__((target_clones("avx2", "default"))) static
#endif

/* Add to a number that threads share, and return its old value. */
#if defined(_MSC_VER)
#include <intrin.h>
#define ADD(number, value) _InterlockedExchangeAdd64((number), (value))
#else
#define ADD(number, value) __atomic_fetch_add((number), (value), __ATOMIC_RELAXED)
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum {
    BLOCK = 1 << 9, /* keys that fit the L1 cache, and whose counts fit 16 bits */
    GROUP = 1 << 6, /* scores that are skipped together if none is high enough */
    PARTS_PER_THREAD = 4, /* for load balance: a slower thread takes fewer parts */
    MOST_FORMULAS = 64,
    MOST_FIRST = 1 << 7, /* candidates that are kept in order, as in `cpu.py` */
};

enum { DONE = 0, MISPLACED = 1, UNKNOWN = 2 }; /* what functions return */

static const int64_t UNRETRIEVED = (int64_t)1 << 62;
static const double ONE = 4294967296.0; /* the integer of a score of 1: 2^32 */

typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);
typedef void (*DoRows)(void *, int64_t, int64_t);

typedef struct {
    const void *start;
    int64_t rows, columns, stride; /* stride between rows; columns are contiguous */
    int64_t infinity;              /* its bits */
} Scores;

typedef struct {
    Scores scores;
    const void *own;
    int64_t width;
    int64_t *above, *tied, *best;
} Survey;

typedef struct {
    Scores scores;
    int64_t number, *ids;
} Top;

typedef struct {
    Scores scores;
    const void *own, *of_columns; /* bins have the width of a score */
    const int64_t *of_rows;
    int64_t most, candidates;
    int64_t *above, *tied, *lengths;
} Bins;

typedef struct {
    int64_t start, last; /* the start of its weight in the table; the last rank */
    double divisor;
} Formula;

typedef struct {
    Scores scores;
    const int64_t *targets;
    int64_t ignores, ignored;
    const Formula *formulas;
    int64_t num_formulas;
    const double *table;
    int64_t *sums;                       /* [num_formulas, 3] */
    int64_t num_locations, *decisions;   /* [3, num_locations]: hits, decisions, support */
} Tally;

typedef struct {
    const int64_t *lists, *ids;
    int64_t length, width, *found;
} Find;

/* Add a score, its square and one to three sums, as `exact.tally` does. */
static ALWAYS_INLINE void add_score(double score, int64_t *sums)
{
    sums[0] += (int64_t)(score * ONE + 0.5);
    sums[1] += (int64_t)(score * score * ONE + 0.5);
    sums[2] += 1;
}

/* Add the score of a relevant location to the sums of every formula. */
static ALWAYS_INLINE void add_scores(const Tally *tally, int64_t above, int64_t tied, int64_t *sums)
{
    for (int64_t j = 0; j < tally->num_formulas; j++, sums += 3) {
        const Formula *formula = &tally->formulas[j];
        const double *table = tally->table + formula->start;
        const int64_t begin = above < formula->last ? above : formula->last;
        const int64_t end = above + tied < formula->last ? above + tied : formula->last;
        add_score((table[end] - table[begin]) / (double)tied / formula->divisor, sums);
    }
}

/* Add to hits, decisions and support, `length` each. */
static ALWAYS_INLINE void add_decision(int64_t *decisions, int64_t length, int64_t target,
                                       int64_t decided)
{
    ADD(&decisions[2 * length + target], 1);
    if (decided >= 0)
        ADD(&decisions[length + decided], 1);
    if (decided == target)
        ADD(&decisions[target], 1);
}

#define KEY int16_t
#define LARGEST INT16_MAX
#define NAME(x) x##_16
#include "rows.h"
#undef KEY
#undef LARGEST
#undef NAME

#define KEY int32_t
#define SCORE float
#define LARGEST INT32_MAX
#define NAME(x) x##_32
#include "rows.h"
#undef KEY
#undef SCORE
#undef LARGEST
#undef NAME

#define KEY int64_t
#define SCORE double
#define LARGEST INT64_MAX
#define NAME(x) x##_64
#include "rows.h"

/* Choose a function by the size of a score in bytes. */
#define FOR_WIDTH(bytes, name) \
    ((bytes) == 2 ? name##_16 : (bytes) == 4 ? name##_32 : (bytes) == 8 ? name##_64 : NULL)

ROWS void find_in_rows(void *about, int64_t begin, int64_t end)
{
    const Find *find = about;
    for (int64_t i = begin; i < end; i++) {
        const int64_t *list = find->lists + i * find->length;
        for (int64_t j = i * find->width; j < (i + 1) * find->width; j++) {
            int64_t at = find->ids[j] < 0 ? find->length : 0;
            while (at < find->length && list[at] != find->ids[j])
                at++;
            find->found[j] = at < find->length ? at : UNRETRIEVED;
        }
    }
}

#include "lists.h"

typedef struct {
    DoRows do_rows;
    void *about;
    int64_t rows, parts, taken;
} Work;

/* Process parts of the rows until none is left, with any number of threads. */
static void take_parts(void *shared)
{
    Work *work = shared;
    for (;;) {
        const int64_t part = ADD(&work->taken, 1);
        if (part >= work->parts)
            return;
        work->do_rows(work->about, work->rows * part / work->parts,
                      work->rows * (part + 1) / work->parts);
    }
}

static int run(Parallel parallel, int64_t threads, DoRows do_rows, void *about, int64_t rows)
{
    if (!do_rows)
        return UNKNOWN;
    if (!parallel || threads < 2) {
        do_rows(about, 0, rows);
        return DONE;
    }
    Work work = {do_rows, about, rows, threads * PARTS_PER_THREAD, 0};
    work.parts = work.parts < rows ? work.parts : rows;
    parallel(take_parts, &work, (unsigned)threads, 0);
    return DONE;
}

EXPORT int nextloc_survey(Parallel parallel, int64_t threads, int64_t bytes, Survey *survey)
{
    return run(parallel, threads, FOR_WIDTH(bytes, survey_rows), survey, survey->scores.rows);
}

EXPORT int nextloc_top(Parallel parallel, int64_t threads, int64_t bytes, Top *top)
{
    return run(parallel, threads, FOR_WIDTH(bytes, top_of_rows), top, top->scores.rows);
}

EXPORT int nextloc_bins(Parallel parallel, int64_t threads, int64_t bytes, Bins *bins)
{
    return run(parallel, threads, FOR_WIDTH(bytes, bin_rows), bins, bins->scores.rows);
}

/* If a target is neither ignored nor a candidate, return MISPLACED and add nothing. */
EXPORT int nextloc_tally(Parallel parallel, int64_t threads, int64_t bytes, Tally *tally)
{
    const Scores *scores = &tally->scores;
    for (int64_t i = 0; i < scores->rows; i++) {
        const int64_t target = tally->targets[i];
        const int is_candidate = target >= 0 && target < scores->columns;
        if (!is_candidate && !(tally->ignores && target == tally->ignored))
            return MISPLACED;
    }
    return run(parallel, threads, FOR_WIDTH(bytes, tally_rows), tally, scores->rows);
}

EXPORT int nextloc_find(Parallel parallel, int64_t threads, int64_t rows, Find *find)
{
    return run(parallel, threads, find_in_rows, find, rows);
}

EXPORT int nextloc_repeats(Parallel parallel, int64_t threads, int64_t rows, Repeats *repeats)
{
    const int answer = run(parallel, threads, repeat_rows, repeats, rows);
    return repeats->repeats ? MISPLACED : answer;
}

EXPORT int nextloc_tally_lists(Parallel parallel, int64_t threads, int64_t rows, TallyLists *tally)
{
    DoRows tally_rows = tally->width == 1 ? tally_one_id_rows : tally_list_rows;
    const int answer = run(parallel, threads, tally_rows, tally, rows);
    return tally->misplaced ? MISPLACED : answer;
}
