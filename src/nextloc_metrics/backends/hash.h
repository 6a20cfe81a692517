/* SipHash-2-4 with 64 or 128 bits, of words that include the last one of each message. */

typedef struct {
    const uint64_t *words;
    const int64_t *ends; /* of each message, behind its last word */
    int64_t wide;
    uint64_t *found; /* one word of a message, or two */
} Hash;

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

static void hash_rows(void *about, int64_t first, int64_t last)
{
    const Hash *hash = about;
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    const int wide = hash->wide != 0;
    for (int64_t row = first; row < last; row++) {
        uint64_t v[4] = {0x736f6d6570736575 ^ key[0], 0x646f72616e646f6d ^ key[1],
                         0x6c7967656e657261 ^ key[0], 0x7465646279746573 ^ key[1]};
        v[1] ^= wide ? 0xee : 0;
        for (int64_t i = row ? hash->ends[row - 1] : 0; i < hash->ends[row]; i++) {
            v[3] ^= hash->words[i];
            mix(v, 2);
            v[0] ^= hash->words[i];
        }
        v[2] ^= wide ? 0xee : 0xff;
        mix(v, 4);
        hash->found[row << wide] = v[0] ^ v[1] ^ v[2] ^ v[3];
        if (wide) {
            v[1] ^= 0xdd;
            mix(v, 4);
            hash->found[2 * row + 1] = v[0] ^ v[1] ^ v[2] ^ v[3];
        }
    }
}
