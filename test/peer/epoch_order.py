#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The order of an epoch, written from PROTOCOL.md 12 alone; prints its vectors, or with the argument
"weights" those of samples drawn by weight."""

import sys

M = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & M
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M
    return z ^ (z >> 31)


def key(a, b):
    return mix(mix(a & M) ^ b)


def permuted(count, k, position):
    keys = [mix((k + (i + 1) * G) & M) for i in range(8)]
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


def order(count, seed, epoch, position):
    return permuted(count, key(seed + G, epoch), position)


def weighted(sizes, weights, seed, epoch, position):
    """(group, which of its samples) at a position; sizes[c] samples are in group c."""
    e, wheel = key(seed + G, epoch), sum(weights)
    r, p = divmod(position, wheel)
    q, c = permuted(wheel, key(e + 1, r), p), 0
    while q >= weights[c]:
        q -= weights[c]
        c += 1
    k, i = divmod(r * weights[c] + q, sizes[c])
    return c, permuted(sizes[c], key(key(e + 2, c), k), i)


def mark(kind, length, weights):
    """Of a cursor; kind: 1 by class, 2 by sample."""
    h = key(length, kind)
    for w in weights:
        h = key(h, w)
    return h


def main():
    for count in (1, 2, 3, 10, 1000, 70000, 1000000, 1 << 32, (1 << 40) + 1):
        for seed, epoch in ((0, 0), (1, 0), (1, 1), (M, M)):
            for position in sorted({0, count // 3, count - 1}):
                print(count, seed, epoch, position, order(count, seed, epoch, position))


def main_weights():
    """The groups of test_weka_order.c: sizes 1, 10, 5, 1000, 2."""
    sizes = (1, 10, 5, 1000, 2)
    for weights in ((1, 1, 1, 1, 1), (5, 0, 1, 3, 1), (1, 0, 0, 0, 0), (1000, 4294967295, 1, 7, 2)):
        print("mark", *weights, mark(1, 1018, weights))
        for seed, epoch in ((0, 0), (1, 0), (1, 1), (M, M)):
            for position in (0, 1, 4, 5, 777, 1017, 1 << 40):
                print(*weights, seed, epoch, position, *weighted(sizes, weights, seed, epoch, position))


if __name__ == "__main__":
    main_weights() if sys.argv[1:] == ["weights"] else main()
