"""A reader of receipts in plain Python, made from `docs/receipts.md`, without the library."""

import hashlib
import hmac
import json
import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

ONES = (1 << 64) - 1
Row = dict[str, Any]


def siphash(data: bytes, wide: bool = False) -> int:
    """Return SipHash-2-4 of 64 or 128 bits with the key 00 01 ... 0f."""
    first, second = 0x0706050403020100, 0x0F0E0D0C0B0A0908
    v = [0x736F6D6570736575 ^ first, 0x646F72616E646F6D ^ second ^ (0xEE if wide else 0)]
    v += [0x6C7967656E657261 ^ first, 0x7465646279746573 ^ second]

    def rotate(i: int, bits: int) -> None:
        v[i] = (v[i] << bits | v[i] >> (64 - bits)) & ONES

    def mix(rounds: int) -> int:
        for _ in range(rounds):
            for a, b, c, d, one, other in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                v[a], v[c] = (v[a] + v[b]) & ONES, (v[c] + v[d]) & ONES
                rotate(b, one)
                rotate(d, other)
                v[b], v[d] = v[b] ^ v[a], v[d] ^ v[c]
                rotate(a, 32)
        return v[0] ^ v[1] ^ v[2] ^ v[3]

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix(2)
        v[0] ^= word
    v[2] ^= 0xEE if wide else 0xFF
    low = mix(4)
    v[1] ^= 0xDD
    return low | mix(4) << 64 if wide else low


def token(name: Any) -> int:
    """Return the token of a location."""
    return siphash(str(name).encode()) % (1 << 40)


def message(fields: Iterable[Sequence[int]]) -> bytes:
    """Return the bytes that are hashed of a row."""
    return b"".join(x.to_bytes(8, "little") for of in fields for x in (*of, 1 << 63))


def name_of(text: Any) -> int:
    """Return the word of a row's id, or of a group."""
    return siphash(str(text).encode()) % (1 << 63)


def digests(rows: Iterable[Row], kinds: Sequence[str]) -> list[dict[str, str]]:
    """Return roots and buckets of the test set and of the predictions, which are lists."""
    sums: list[list[list[int]]] = [[[0, 0] for _ in range(256)] for _ in range(2)]
    for row in rows:
        key = [name_of(row["id"])] if "id" in row else []
        groups = [[name_of(row[kind])] for kind in sorted(kinds)]
        test = siphash(message([key, [token(row["target"])], *groups]), wide=True)
        key = key or [test & ONES, test >> 64]
        given = siphash(message([key, [*map(token, row["preds"])]]), wide=True)
        for of, value in zip(sums, (test, given), strict=True):
            of[key[0] % 256][0] = (of[key[0] % 256][0] + value) % (1 << 128)
            of[key[0] % 256][1] += 1
    found = []
    for of in sums:
        parts = [x.to_bytes(16, "little") + n.to_bytes(8, "little") for x, n in of]
        root = hmac.digest(b"", b"".join(parts), "sha256")[:16].hex()
        marks = (hmac.digest(b"", bytes([i]) + x, "sha256")[:3] for i, x in enumerate(parts))
        found.append({"root": root, "buckets": b64encode(b"".join(marks)).decode()})
    return found


def sums_of(scores: Sequence[float]) -> list[str]:
    """Return the sums of scores and of their squares in units of 2^-32, and their number."""
    fixed = [[math.floor(x * 2**32 + 0.5) for x in (y, y * y)] for y in scores]
    return [str(sum(x)) for x in zip(*fixed, strict=True)] + [str(len(scores))]


def wrong_in(text: str, rows: Sequence[Row]) -> list[str]:
    """Return which entries of a receipt of lists differ from these rows."""
    content = json.loads(text)
    inside = {x: y for x, y in content.items() if x not in ("checksum", "note", "source")}
    canonical = json.dumps(inside, sort_keys=True, separators=(",", ":")) + "\n"
    test, given = digests(rows, content["options"]["groups"])
    ranks = [
        x["preds"].index(x["target"]) + 1 if x["target"] in x["preds"] else math.inf for x in rows
    ]
    expected = {
        "checksum": hashlib.sha256(canonical.encode()).hexdigest(),
        "num_asked": len(rows),
        "test_set": test,
        "predictions": {**given, "of": "lists"},
    }
    wrong = [name for name, x in expected.items() if content[name] != x]
    sums = {"mrr": sums_of([1 / x for x in ranks])}
    for k in content["options"]["k"]:
        sums[f"acc_at_{k}"] = sums_of([float(rank <= k) for rank in ranks])
    return wrong + [name for name, x in sums.items() if content["sums"][name] != x]
