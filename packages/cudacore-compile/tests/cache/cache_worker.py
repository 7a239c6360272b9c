# SPDX-License-Identifier: Apache-2.0
"""A process that works on a file cache with several threads: test_cache_stress.py starts and kills it.

It prints a line for each operation, so that the parent can count them even if this process is killed.
"""

from __future__ import annotations

import hashlib
import random
import sys
import threading

from cudacore_compile import FileStreamProgramCache

THREADS = 8
KEYS = 60
LIMIT = 400_000


def content(key: int) -> bytes:
    """Return the value for a key, of 1 to 30 KB."""
    return hashlib.sha256(b"%d" % key).digest() * (40 + key * 17 % 900)


def work(cache: FileStreamProgramCache, seed: int) -> None:
    choose = random.Random(seed)
    while True:
        key = choose.randrange(KEYS)
        if choose.random() < 0.5:
            found = cache.get(b"%d" % key)
            if found is not None and found != content(key):
                print("wrong", flush=True)
                continue
        elif choose.random() < 0.02:
            cache.clear()
        else:
            cache[b"%d" % key] = content(key)
        print("done", flush=True)


if __name__ == "__main__":
    shared = FileStreamProgramCache(sys.argv[1], max_size_bytes=LIMIT)
    for number in range(THREADS):
        threading.Thread(target=work, args=(shared, int(sys.argv[2]) * THREADS + number)).start()
