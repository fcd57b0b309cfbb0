# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The 64 bytes of a cursor, for any position of an epoch: PROTOCOL.md 12."""

import struct

# magic, version, flags, count, seed, epoch, position, content
_FIELDS = struct.Struct("<4sHHQQQQ20s")


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


def sealed(fields):
    """The cursor of these fields."""
    packed = _FIELDS.pack(*fields)
    return packed + _crc32c(packed).to_bytes(4, "little")


class Cursors:
    """The cursors of one dataset, seed and order, for any epoch and position.

    model: one of them, which Stream.cursor() has given; length: the epoch's positions.
    """

    def __init__(self, model, length):
        *self._before, _, _, self._content = _FIELDS.unpack(model[:60])
        self.length = length

    def build(self, epoch, position):
        """The cursor of a position."""
        return sealed((*self._before, epoch, position, self._content))

    def parse(self, cursor):
        """(epoch, position) of a cursor, which must be of this dataset, seed and order."""
        if len(cursor) != 64:
            raise ValueError("a cursor has 64 bytes, not %d" % len(cursor))
        *_, epoch, position, _ = _FIELDS.unpack(cursor[:60])
        if cursor[60:] != _crc32c(cursor[:60]).to_bytes(4, "little"):
            raise ValueError("these bytes are not a cursor, or not whole")
        if bytes(cursor) != self.build(epoch, position) or position > self.length:
            raise ValueError("the cursor is of another dataset or version, of another seed, of another order, or of "
                             "other weights")
        return epoch, position
