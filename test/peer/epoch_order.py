#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The order of an epoch, written from PROTOCOL.md 12 alone; prints its vectors."""

M = (1 << 64) - 1


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M
    return z ^ (z >> 31)


def order(count, seed, epoch, position):
    g = 0x9E3779B97F4A7C15
    k = mix(mix((seed + g) & M) ^ epoch)
    keys = [mix((k + (i + 1) * g) & M) for i in range(8)]
    b = max(2, (count - 1).bit_length())
    r = b // 2
    x = position
    while True:
        left, right = x >> r, x & ((1 << r) - 1)
        for i in range(0, 8, 2):
            left ^= mix(right ^ keys[i]) & ((1 << (b - r)) - 1)
            right ^= mix(left ^ keys[i + 1]) & ((1 << r) - 1)
        x = left << r | right
        if x < count:
            return x


if __name__ == "__main__":
    for count in (1, 2, 3, 10, 1000, 70000, 1000000, 1 << 32, (1 << 40) + 1):
        for seed, epoch in ((0, 0), (1, 0), (1, 1), (M, M)):
            for position in sorted({0, count // 3, count - 1}):
                print(count, seed, epoch, position, order(count, seed, epoch, position))
