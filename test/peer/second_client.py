#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""A second implementation of the protocol's client side, over TCP, written from PROTOCOL.md's
tables alone: what it needs and does not find there is a hole in that document.

    second_client.py HOST PORT KEY_FILE

It knows nothing of fabric/: no golden file, no header.  One line for each thing it tried; exit
status 1 if the appliance and the document disagree.
"""
import errno, hashlib, hmac, os, socket, struct, sys

BLOCK = 4096
POOL = 8 << 20
HELLO, CHALLENGE, PROOF, WELCOME, REFUSE, POOL_ADD, POOL_ADDED, PART, PULL, DATA, CANCEL, REPLY = range(1, 13)
(PING, READ, READ_BATCH, OPEN, STAT, LIST, READLINK, STATFS, STATUS, PUT, PUT_BEGIN, PUT_COMMIT, WRITE, TRUNCATE,
 SETATTR, MKDIR, RMDIR, UNLINK, RENAME, SYMLINK, PUT_ABORT, LINK, PUNCH, SEEK, RMTREE,
 XATTR_GET, XATTR_SET, XATTR_LIST, XATTR_DEL, UNLINK_BATCH) = range(16, 46)
BY_PATH, BY_HANDLE, BY_DIRECTORY = 1, 2, 3
TO_END = (1 << 64) - 1
CRC = list(range(256))
for _ in range(8):
    CRC = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in CRC]


def crc32c(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = CRC[(c ^ byte) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def sums_of(data):
    """Section 5: a checksum for each block of 4,096 bytes, over its bytes and zeros."""
    return b"".join(struct.pack("<I", crc32c(data[i:i + BLOCK].ljust(BLOCK, b"\0"))) for i in range(0, len(data), BLOCK))


def capsule(kind, body=b"", request_id=0, region=0, window=(0, 0), deadline=0):
    """Section 2, in a stream.  window: first block, blocks."""
    head = struct.pack("<4sBBHQIIII", b"WKF1", 1, kind, region, request_id, deadline, len(body), *window)
    if len(body) <= 28:
        head, tail = head + body.ljust(28, b"\0"), b""
    else:
        head, tail = head + struct.pack("<II20x", crc32c(body), 0), body
    return head + struct.pack("<I", crc32c(head)) + tail


def name_of(path, name_at):
    return struct.pack("<BBHI16s", BY_PATH, 0, len(path), name_at, bytes(16))


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Client:
    def __init__(self, host, port, key_id, secret, lane=bytes(16)):
        self.sock = socket.create_connection((host, port), timeout=120)
        self.pool = bytearray(POOL)
        self.next_id, self.brought = 0, {PART: 0, REPLY: 0}
        self.hello(key_id, secret, lane)
        self.sock.sendall(capsule(POOL_ADD, struct.pack("<Q", POOL), region=1))
        kind, head, _ = self.receive()
        assert kind == POOL_ADDED and head["status"] == 0 and head["region"] == 1

    def take(self, size):
        data = bytearray()
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise ConnectionError("the appliance ended the session")
            data += piece
        return bytes(data)

    def receive(self):
        head = self.take(64)
        magic, version, kind, region, request_id, status, size, block, blocks = struct.unpack_from("<4sBBHQiIII", head)
        assert magic == b"WKF1" and version == 1, "header"
        assert struct.unpack_from("<I", head, 60)[0] == crc32c(head[:60]), "check of the header"
        if size <= 28:
            body = head[32:32 + size]
            assert head[32 + size:60].strip(b"\0") == b"", "zeros behind a small body"
        else:
            body = self.take(size)
            assert struct.unpack_from("<I", head, 32)[0] == crc32c(body), "check of the body"
        if kind == REFUSE:
            raise Refused(status, body.decode())
        return kind, {"region": region, "id": request_id, "status": status, "behind": (block * BLOCK, blocks * BLOCK) if blocks else (0, 0)}, body

    def hello(self, key_id, secret, lane):
        """Section 3."""
        limits = struct.pack("<IIIIQ", 16, 2, 256, 4 << 20, POOL)
        hello = struct.pack("<BBB5x", 2, 2, 1) + limits + key_id.encode().ljust(32, b"\0") + os.urandom(32) + bytes(16) + lane
        self.sock.sendall(capsule(HELLO, hello))
        kind, head, body = self.receive()
        assert kind == CHALLENGE and len(body) == 128 and body[0] == 2
        transcript = hello + body[:64] + bytes(32) + body[96:]

        def proof(label):
            return hmac.new(secret, label.ljust(32, b"\0") + transcript, hashlib.sha256).digest()

        self.mutual = hmac.compare_digest(body[64:96], proof(b"weka fabric appliance"))
        granted = struct.unpack_from("<IIIIQ", body, 8)
        assert 1 <= granted[0] <= 16 and granted[4] <= POOL, "more was granted than wished for"
        self.sock.sendall(capsule(PROOF, proof(b"weka fabric client")))
        kind, head, body = self.receive()
        assert kind == WELCOME and len(body) == 28
        self.session, self.key = struct.unpack_from("<Q", body)[0], proof(b"weka fabric lane")

    def call(self, kind, body=b"", window_bytes=0, at=0):
        """One request, to its reply: (status, body).  Payload lands in the pool, PULLs are answered from it."""
        self.next_id += 1
        mine = self.next_id
        window = (at // BLOCK, window_bytes // BLOCK)
        self.sock.sendall(capsule(kind, body, mine, 1 if window_bytes else 0, window))
        while True:
            got, head, reply = self.receive()
            assert head["id"] == mine, "an answer to nobody"
            offset, length = head["behind"] if got == REPLY else struct.unpack_from("<II", reply)
            assert (not head["status"] or not length if got == REPLY else length > 0) and length <= 4 << 20 and offset + length <= window_bytes, "outside the window"
            place = slice(at + offset, at + offset + length)
            if got == PULL:
                self.sock.sendall(capsule(DATA, reply, mine) + bytes(self.pool[place]))
                continue
            assert got in (PART, REPLY), f"capsule of type {got}"
            self.pool[place] = self.take(length)
            self.brought[got] += length > 0
            if got == REPLY:
                assert head["status"] >= 0 or reply == b"", "an error has no body"
                return head["status"], reply

    def named(self, kind, fixed_bytes, name, rest=b"", **window):
        name = name.encode()
        return self.call(kind, name_of(name, fixed_bytes) + rest + name, **window)

    def put(self, files, mtime):
        """files: [(path, bytes)].  Returns [status]."""
        fixed, at = 8 + len(files) * 64, 0
        items, names = b"", b""
        for path, data in files:
            self.pool[at:at + len(data)] = data
            sums_at = (at + len(data) + 3) // 4 * 4
            sums = sums_of(data)
            self.pool[sums_at:sums_at + len(sums)] = sums
            items += struct.pack("<BBHI16sIIIIqIIII", BY_PATH, 0, len(path), fixed + len(names), bytes(16), 0o640, 7, 8, 0,
                                 mtime, len(data), at, sums_at, 0)
            names += path.encode()
            at = (sums_at + len(sums) + 63) // 64 * 64
        answers = (len(files) * 24 + 63) // 64 * 64
        window = (at + answers + BLOCK - 1) // BLOCK * BLOCK
        status, _ = self.call(PUT, struct.pack("<II", len(files), 0) + items + names, window_bytes=window)
        assert status == 0, os.strerror(-status)
        return [struct.unpack_from("<iI16s", self.pool, window - answers + i * 24)[0] for i in range(len(files))]

    def read_batch(self, names, window=4 << 20):
        """names: [(by, ident, name[, ctime])].  Returns [(status, bytes)], each byte's checksum compared."""
        fixed = 8 + len(names) * 40
        items, tail = b"", b""
        for by, ident, name, *state in names:
            items += struct.pack("<BBHI16sQQ", by, 2 * len(state), len(name), fixed + len(tail) if name or state else 0,
                                 ident, 0, TO_END)
            tail += struct.pack("<%dq" % len(state), *state) + name.encode()
        status, body = self.call(READ_BATCH, struct.pack("<II", len(names), 0) + items + tail, window_bytes=window)
        assert status == 0 and body == b"", os.strerror(-status)
        answers = window - (len(names) * 24 + 63) // 64 * 64
        return [self.answer(answers + i * 24) for i in range(len(names))]

    def answer(self, at):
        status, data_at, length, sums_at, _ = struct.unpack_from("<iIQII", self.pool, at)
        if status:
            return status, length
        blocks = (length + BLOCK - 1) // BLOCK
        padded = bytes(self.pool[data_at:data_at + blocks * BLOCK])
        assert padded[length:].strip(b"\0") == b"", "bytes behind the end are zero"
        assert bytes(self.pool[sums_at:sums_at + 4 * blocks]) == sums_of(padded), "checksums"
        return 0, padded[:length]

    def list(self, path, count_max):
        cookie, names = bytes(24), []
        while True:
            status, body = self.named(LIST, 56, path, cookie + struct.pack("<II", count_max, 0), window_bytes=64 << 10)
            assert status == 0, os.strerror(-status)
            count, _, at_end, _, cookie = struct.unpack("<IIII24s", body)
            at = 0
            for _ in range(count):
                entry_bytes, name_bytes = struct.unpack_from("<HH", self.pool, at)
                names.append(bytes(self.pool[at + 104:at + 104 + name_bytes]).decode())
                at += entry_bytes
            if at_end:
                return names


ATTR = struct.Struct("<16sQQQQqqqIIII8x")  # handle, number, directory, size, allocated, m/c/atime, mode, uid, gid, links


class Trial:
    def __init__(self):
        self.bad = 0

    def check(self, name, holds, said=""):
        self.bad += not holds
        print(f"{'ok' if holds else 'not ok'} {name}" + ("" if holds else f"\n  {said}"))


def try_files(c, t):
    sizes = [0, 1, 100, 4095, 4096, 4097, 65536, 300001]
    files = [(f"/peer/{n}", bytes(os.urandom(n))) for n in sizes]
    status, body = c.named(MKDIR, 56, "/peer", struct.pack("<IIIIqQ", 0o750, 7, 8, 0, 0, 0))
    t.check("a directory is made", status == 0 and len(body) == 104, status)
    directory = ATTR.unpack_from(body, 8)[2]
    t.check("and not a second time", c.named(MKDIR, 56, "/peer", struct.pack("<IIIIqQ", 0o750, 7, 8, 0, 0, 0))[0] == -errno.EEXIST)
    t.check("eight files in one request", c.put(files, 10**18) == [0] * 8)
    got = c.read_batch([(BY_PATH, bytes(16), path) for path, _ in files])
    t.check("eight files come back in one request", got == [(0, data) for _, data in files])
    ident = struct.pack("<QQ", directory, 0)
    got = c.read_batch([(BY_DIRECTORY, ident, str(n)) for n in sizes] + [(BY_DIRECTORY, ident, "none")])
    t.check("by names relative to a directory; one that is not there spoils nothing",
            got == [(0, data) for _, data in files] + [(-errno.ENOENT, 0)], got[-1])
    got = c.read_batch([(BY_PATH, bytes(16), "/peer/300001")], window=8 * BLOCK)
    t.check("what does not fit is told with its size", got == [(-errno.EMSGSIZE, 300001)], got)
    t.check("a listing in pages of three", sorted(c.list("/peer", 3)) == sorted(map(str, sizes)))
    t.check("payload came in PARTs", c.brought[PART] > 0)


def try_handles(c, t):
    status, body = c.call(STAT, struct.pack("<II", 1, 0) + name_of("/peer/4097", 32) + b"/peer/4097")
    attr = ATTR.unpack_from(body, 8)
    t.check("stat says what was put", status == 0 and (attr[3], attr[5], attr[8] & 0o7777, attr[9], attr[10]) ==
            (4097, 10**18, 0o640, 7, 8), attr)
    handle = attr[0]
    data = b"x" * 5000
    c.pool[0:5000] = data
    c.pool[8192:8200] = sums_of(data)
    status, body = c.call(WRITE, handle + struct.pack("<QIIII", 4096, 5000, 0, 0, 8192), window_bytes=4 * BLOCK)
    t.check("a write at a block's start", status == 0 and struct.unpack("<Q", body) == (9096,), (status, body))
    status, body = c.call(READ, handle + struct.pack("<QI", 4096, 8192), window_bytes=8 * BLOCK)
    length, sums_at = struct.unpack_from("<II", body)
    t.check("is read back, with its checksums in the reply", (status, length, sums_at) == (0, 5000, 0) and
            bytes(c.pool[:5000]) == data and body[8:] == sums_of(data) and c.brought[REPLY] > 0, (status, body))
    c.pool[0] ^= 1
    status, _ = c.call(WRITE, handle + struct.pack("<QIIII", 4096, 5000, 0, 0, 8192), window_bytes=4 * BLOCK)
    t.check("a wrong checksum is refused", status == -errno.EBADMSG, status)
    find = lambda offset, hole: c.call(SEEK, handle + struct.pack("<QQII", offset, 0, hole, 0))
    now = ATTR.unpack_from(c.call(STAT, struct.pack("<II", 1, 0) + name_of("/peer/4097", 32) + b"/peer/4097")[1], 8)[6]
    got = c.read_batch([(BY_PATH, bytes(16), "/peer/4097", now), (BY_HANDLE, handle, "", now), (BY_HANDLE, handle, "", attr[6]),
                        (BY_PATH, bytes(16), "/peer/4097", attr[6])])
    t.check("a state is read, and one that is over is not", now > attr[6] and got[0] == got[1] and got[0][0] == 0 and
            got[2:] == [(-errno.ESTALE, 0)] * 2, got)
    t.check("all of it is data", find(0, 0) == (0, struct.pack("<Q", 0)) and find(0, 1) == (0, struct.pack("<Q", 9096)), find(0, 1))
    status, body = c.call(PUNCH, handle + struct.pack("<QQQ", 100, 8092, 0))
    c.call(READ, handle + struct.pack("<QI", 0, 8192), window_bytes=8 * BLOCK)
    t.check("punched: zeros, and a hole where a whole block was", (status, body) == (0, b"") and bytes(c.pool[100:8192]) == bytes(8092) and
            find(0, 1) == (0, struct.pack("<Q", 4096)) and find(4096, 0) == (0, struct.pack("<Q", 8192)), (status, find(0, 1)))
    t.check("behind the end nothing is found", find(9096, 0)[0] == -errno.ENXIO, find(9096, 0))
    t.check("truncated", c.call(TRUNCATE, handle + struct.pack("<Q", 10))[0] == 0)
    xattr = lambda kind, value=b"", flags=0, path=b"/peer/4097": c.call(kind, name_of(path, 48) + struct.pack(
        "<IHHIIII", 48 + len(path), 6, 0, 54 + len(path) if kind == XATTR_SET else 0, len(value), flags, 0) + path + b"user.x" + value)
    t.check("an attribute is set, whole, and listed", xattr(XATTR_SET, b"\0" * 700) == (0, b"") and xattr(XATTR_GET) == (0, b"\0" * 700) and
            c.named(XATTR_LIST, 24, "/peer/4097") == (0, b"user.x\0") and xattr(XATTR_SET, b"", 1)[0] == -errno.EEXIST)
    t.check("and removed", xattr(XATTR_DEL) == (0, b"") and xattr(XATTR_GET)[0] == xattr(XATTR_SET, b"v", 2)[0] == -errno.ENODATA)
    names = name_of("/peer/4097", 56) + name_of("/peer/new", 66)
    status, _ = c.call(RENAME, names + bytes(8) + b"/peer/4097/peer/new")
    got = c.read_batch([(BY_PATH, bytes(16), "/peer/4097"), (BY_HANDLE, handle, ""), (BY_PATH, bytes(16), "/peer/new")])
    t.check("renamed: the old name is gone, the handle stays",
            status == 0 and [g[0] for g in got] == [-errno.ENOENT, 0, 0] and got[1][1] == got[2][1] and len(got[1][1]) == 10, got)
    names = name_of("/peer/new", 56) + name_of("/peer/too", 65)
    status, _ = c.call(LINK, names + bytes(8) + b"/peer/new/peer/too")
    attrs = [ATTR.unpack_from(c.call(STAT, struct.pack("<II", 1, 0) + name_of(path, 32) + path.encode())[1], 8)
             for path in ("/peer/new", "/peer/too")]
    t.check("linked: one file with two names", status == 0 and attrs[0] == attrs[1] and attrs[0][0] == handle and attrs[0][-1] == 2,
            (status, attrs))
    t.check("a name that is there is no new one", c.call(LINK, names + bytes(8) + b"/peer/new/peer/too")[0] == -errno.EEXIST)
    two = struct.pack("<II", 2, 0) + name_of("/peer/too", 56) + name_of("/peer/no", 65) + b"/peer/too/peer/no"
    t.check("one name goes", c.call(UNLINK_BATCH, two) == (0, struct.pack("<ii", 0, -errno.ENOENT)))
    t.check("a directory with files is not removed", c.named(RMDIR, 24, "/peer")[0] == -errno.ENOTEMPTY)
    t.check("a file is", c.named(UNLINK, 24, "/peer/new")[0] == 0)
    t.check("and its handle is stale", c.read_batch([(BY_HANDLE, handle, "")]) == [(-errno.ESTALE, 0)])
    t.check("the directory goes with all that is in it", c.named(RMTREE, 24, "/peer") == (0, b"") and
            c.named(RMTREE, 24, "/peer")[0] == -errno.ENOENT)


def main():
    host, port, key_file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    text = open(key_file, encoding="ascii").read().strip()
    (key_id, secret), t = text.split(":") if ":" in text else ("weka", text), Trial()
    c = Client(host, port, key_id, bytes.fromhex(secret))
    t.check("the appliance proves the key", c.mutual)
    t.check("ping", c.call(PING) == (0, b""))
    try_files(c, t)
    try_handles(c, t)
    lane = struct.pack("<QHHI", c.session, 1, 0, 0)
    second = Client(host, port, key_id, c.key, lane)
    t.check("a lane of the session, with its key", second.session == c.session and second.call(PING) == (0, b""))
    for name, ident, key, of in (("a wrong key", key_id, bytes(32), bytes(16)), ("a lane with the client's key", key_id, bytes.fromhex(secret), lane),
                                 ("an unknown key", "nobody", bytes.fromhex(secret), bytes(16))):
        try:
            other = Client(host, port, ident, key, of)
            t.check(f"{name} is refused", False, f"it was let in, mutual {other.mutual}")
        except Refused as refused:
            t.check(f"{name} is refused", refused.status == -errno.EACCES, refused)
    sys.exit(1 if t.bad else 0)


main()
