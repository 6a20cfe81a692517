/* SipHash-2-4 of names, with 64 bits, and of rows, with 128; `siphash.py` says of what. */

enum { BUCKETS = 256, LIMBS = 5 }; /* a limb has 32 bits of a sum; the last one is the number */

typedef struct {
    const uint8_t *bytes;
    const int64_t *ends, *integers; /* of texts; or integers, the texts of which are decimal */
    uint64_t *found;
} Hash;

typedef struct {
    const int64_t *words, *lists, *table; /* a row each, -1 for padding; tokens of the lists */
    int64_t width, own, length, has_ids;
    int64_t *sums;
} Digest;

#define ROTATE(x, bits) ((x) << (bits) | (x) >> (64 - (bits)))

static ALWAYS_INLINE void mix(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = ROTATE(v[1], 13) ^ v[0], v[3] = ROTATE(v[3], 16) ^ v[2];
        v[0] = ROTATE(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = ROTATE(v[1], 17) ^ v[2], v[3] = ROTATE(v[3], 21) ^ v[0];
        v[2] = ROTATE(v[2], 32);
    }
}

static ALWAYS_INLINE void begin_hash(uint64_t v[4], int wide)
{
    const uint64_t first = 0x0706050403020100, second = 0x0f0e0d0c0b0a0908;
    v[0] = 0x736f6d6570736575 ^ first, v[1] = 0x646f72616e646f6d ^ second ^ (wide ? 0xee : 0);
    v[2] = 0x6c7967656e657261 ^ first, v[3] = 0x7465646279746573 ^ second;
}

static ALWAYS_INLINE void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

static ALWAYS_INLINE uint64_t end_hash(uint64_t v[4], uint64_t constant, uint64_t *end)
{
    *end ^= constant;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static int64_t write_decimal(int64_t integer, uint8_t text[24])
{
    uint64_t left = integer < 0 ? -(uint64_t)integer : (uint64_t)integer;
    int64_t start = 24;
    do
        text[--start] = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (integer < 0)
        text[--start] = '-';
    memmove(text, text + start, (size_t)(24 - start));
    return 24 - start;
}

static void hash_names(void *about, int64_t first, int64_t last)
{
    const Hash *hash = about;
    for (int64_t row = first; row < last; row++) {
        uint8_t digits[24];
        const int64_t start = hash->integers || !row ? 0 : hash->ends[row - 1];
        const uint8_t *text = hash->integers ? digits : hash->bytes + start;
        const int64_t length = hash->integers ? write_decimal(hash->integers[row], digits)
                                              : hash->ends[row] - start;
        uint64_t v[4], word = 0;
        begin_hash(v, 0);
        for (int64_t i = 0; i < length; i++) {
            word |= (uint64_t)text[i] << 8 * (i & 7);
            if ((i & 7) == 7)
                take_word(v, word), word = 0;
        }
        take_word(v, word | (uint64_t)length << 56);
        hash->found[row] = end_hash(v, 0xff, v + 2);
    }
}

/* Take the words that are no padding, each from the table if there is one, and say how many. */
static ALWAYS_INLINE uint64_t take_words(uint64_t v[4], const int64_t *words, int64_t number,
                                         const int64_t *table)
{
    uint64_t taken = 0;
    for (int64_t i = 0; i < number; i++)
        if (table ? words[i] >= 0 : words[i] != -1)
            take_word(v, (uint64_t)(table ? table[words[i]] : words[i])), taken++;
    return taken;
}

static ALWAYS_INLINE void end_row(uint64_t v[4], uint64_t taken, uint64_t found[2])
{
    take_word(v, taken << 59);
    found[0] = end_hash(v, 0xee, v + 2);
    found[1] = end_hash(v, 0xdd, v + 1);
}

static void digest_rows(void *about, int64_t first, int64_t last)
{
    const Digest *digest = about;
    const int64_t width = digest->width, own = digest->own, length = digest->length;
    int64_t sums[2][BUCKETS][LIMBS] = {0};
    for (int64_t row = first; row < last; row++) {
        const int64_t *words = digest->words + row * width;
        uint64_t v[4], hashes[2][2], *test = hashes[0], taken;
        begin_hash(v, 1);
        end_row(v, take_words(v, words, own, NULL), test);
        if (digest->has_ids)
            test = (uint64_t *)words;
        begin_hash(v, 1);
        for (int64_t i = 0; i < 2 - digest->has_ids; i++)
            take_word(v, test[i]);
        take_word(v, (uint64_t)1 << 63);
        taken = take_words(v, digest->lists + row * length, length, digest->table);
        take_word(v, (uint64_t)1 << 63);
        taken += take_words(v, words + own, width - own, NULL) + 4 - (uint64_t)digest->has_ids;
        end_row(v, taken, hashes[1]);
        for (int i = 0; i < 2; i++) {
            int64_t *limbs = sums[i][test[0] % BUCKETS];
            for (int j = 0; j < LIMBS - 1; j++)
                limbs[j] += (int64_t)(uint32_t)(hashes[i][j / 2] >> 32 * (j % 2));
            limbs[LIMBS - 1]++;
        }
    }
    for (int64_t i = 0; i < 2 * BUCKETS * LIMBS; i++)
        ADD(digest->sums + i, (&sums[0][0][0])[i]);
}
