# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The 64 bytes of a cursor, for any position of an epoch: PROTOCOL.md 12."""

import struct

# magic, version, flags, count, seed, epoch, position, content
_FIELDS = struct.Struct("<4sHHQQQQ20s")
_IN_ORDER = 1


def _table():
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        yield n


_TABLE = tuple(_table())


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def build(dataset, seed, epoch, position, shuffle):
    """The cursor of a position."""
    fields = _FIELDS.pack(b"WKCU", 1, 0 if shuffle else _IN_ORDER, len(dataset), seed, epoch, position,
                          bytes.fromhex(dataset.content)[:20])
    return fields + _crc32c(fields).to_bytes(4, "little")


def parse(dataset, seed, shuffle, cursor):
    """(epoch, position) of a cursor, which must be of this dataset, seed and order."""
    if len(cursor) != 64:
        raise ValueError("a cursor has 64 bytes, not %d" % len(cursor))
    *_, epoch, position, _ = _FIELDS.unpack(cursor[:60])
    if cursor[60:] != _crc32c(cursor[:60]).to_bytes(4, "little"):
        raise ValueError("these bytes are not a cursor, or not whole")
    if bytes(cursor) != build(dataset, seed, epoch, position, shuffle) or position > len(dataset):
        raise ValueError("the cursor is of another dataset or version, of another seed, or of another order")
    return epoch, position
