#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl dataset: versions of a real tree, made, listed, checked, compared and removed.
. "$(dirname "$0")/lib.sh"

CTL="$BIN/wekactl --connect $SHM --key $DIR/key"
write_conf "mem:512M"
check "an appliance starts" start

mkdir -p "$DIR/tree/cat" "$DIR/tree/dog"
i=0
while [ $i -lt 60 ]; do
	head -c $((i * 371 % 9000)) /dev/urandom >"$DIR/tree/cat/$i.bin"
	head -c $((i * 77)) /dev/urandom >"$DIR/tree/dog/$i.jpg"
	i=$((i + 1))
done
check "a tree is imported" ctl import "$DIR/tree" /pets
is "there are no datasets yet" "" "$(ctl dataset list)"
check "a dataset is made" ctl dataset create pets /pets
made=$(ctl --json dataset show pets)
is "it has all files" 120 "$(printf '%s' "$made" | sed 's/.*"samples":\([0-9]*\).*/\1/')"
is "... all bytes" "$(cat "$DIR"/tree/*/* | wc -c)" "$(printf '%s' "$made" | sed 's/.*"bytes":\([0-9]*\),"largest.*/\1/')"
is "... and the directories as classes" "  class 0: cat
  class 1: dog" "$(ctl dataset show pets@1 | tail -2)"
check "every sample is what it was" ctl dataset verify pets

# The content hash is that of PROTOCOL.md 11, computed here by another program.
content=$(printf '%s' "$made" | sed 's/.*"content":"\([0-9a-f]*\)".*/\1/')
is "the content hash is the one of the protocol" "$content" "$(/usr/bin/python3 - "$DIR/tree" <<'EOF'
import hashlib, os, struct, sys
root, all = sys.argv[1], hashlib.sha256()
files = sorted(os.fsencode(os.path.relpath(os.path.join(d, f), root)) for d, _, fs in os.walk(root) for f in fs)
classes = sorted({f.split(b"/")[0] for f in files})
for f in files:
    data = open(os.path.join(os.fsencode(root), f), "rb").read()
    all.update(struct.pack("<Q", len(f)) + f + struct.pack("<QQ", len(data), classes.index(f.split(b"/")[0])))
    all.update(hashlib.sha256(data).digest())
for c in classes:
    all.update(c + b"\0")
print(all.hexdigest())
EOF
)"

# The C example: three ranks read every sample, in each of two epochs.
"$BIN/../examples/epoch" "$SHM" "$DIR/key" pets 2 >"$DIR/epoch" 2>&1
is "three ranks read two epochs" 240 "$(awk '{ n += $3 } END { print n }' "$DIR/epoch")"
is "... all bytes of them" $((2 * $(cat "$DIR"/tree/*/* | wc -c))) "$(awk '{ n += $5 } END { print n }' "$DIR/epoch")"

check "only some files, unread and without labels" ctl dataset create jpegs /pets --glob '*.jpg' --quick --no-labels
is "they are half" 60 "$(ctl --json dataset show jpegs | sed 's/.*"samples":\([0-9]*\).*/\1/')"
is "both datasets are listed" "jpegs@1 pets@1" "$(ctl dataset list | cut -d' ' -f1 | sort | tr '\n' ' ' | sed 's/ $//')"

# Changes: one file is replaced, one comes, one goes.
echo other >"$DIR/other"
check "a file is replaced" ctl put "$DIR/other" /pets/cat/7.bin
check "... one is added" ctl put "$DIR/other" /pets/cat/new
check "... one is removed" ctl rm /pets/dog/9.jpg
refuses "the old version is not what it was" "2 of 120 samples were changed or removed since; the first is /pets/cat/7.bin" \
	$CTL -q dataset verify pets@1
check "the next version" ctl dataset create pets /pets
check "... is whole" ctl dataset verify pets
is "the difference of two versions" "~ /pets/cat/7.bin
+ /pets/cat/new
- /pets/dog/9.jpg" "$(ctl dataset compare pets@1 pets@2)"
is "a difference is exit status 1" 1 "$(ctl dataset compare pets@1 pets@2 >/dev/null; echo $?)"
is "... and none is 0" 0 "$(ctl dataset compare pets@2 pets@2; echo $?)"

# ---- records in files, written by other programs -------------------------------------------------

check "files of records are written" /usr/bin/python3 - "$DIR/records" <<'EOF'
import io, os, struct, sys, tarfile, zlib
import numpy as np
root = sys.argv[1]

def crc32c(data, table=[]):
    if not table:
        for n in range(256):
            for _ in range(8):
                n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
            table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF

def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

for d in ("tar", "tf", "npy", "npz", "bad"):
    os.makedirs(os.path.join(root, d))
with open(root + "/want", "w") as want:
    for shard, form in enumerate((tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        with tarfile.open("%s/tar/%d.tar" % (root, shard), "w", format=form) as t:
            folder = tarfile.TarInfo("dir")
            folder.type = tarfile.DIRTYPE
            t.addfile(folder)
            for n in range(20):
                for kind in ("jpg", "cls", "seg.png"):
                    # Names longer than a header's field take what each format has for them.
                    info = tarfile.TarInfo("dir/%05d%s.%s" % (shard * 20 + n, "x" * 120 * (n % 3 == 2 and shard > 0), kind))
                    info.size = n * 199
                    t.addfile(info, io.BytesIO(os.urandom(info.size)))
    for shard in range(2):
        with open("%s/tf/%d.tfrecord" % (root, shard), "wb") as f:
            for n in range(30):
                data = os.urandom(n * 77)
                length = struct.pack("<Q", len(data))
                f.write(length + masked(length) + data + masked(data))
    np.save(root + "/npy/a.npy", np.random.rand(25, 3, 7).astype("<f4"))
    np.save(root + "/npy/b.npy", np.arange(10, dtype="<i8"))
    np.savez(root + "/npz/c.npz", x=np.random.rand(40, 11), y=np.arange(40))
    whole = open(root + "/tar/1.tar", "rb").read()
    open(root + "/bad/cut.tar", "wb").write(whole[:-10240 - 700 - 512 * 20])
    tf = bytearray(open(root + "/tf/0.tfrecord", "rb").read())
    open(root + "/bad/cut.tfrecord", "wb").write(tf[:-5])
    tf[len(tf) // 2] ^= 1
    open(root + "/bad/flipped.tfrecord", "wb").write(tf)
    np.savez_compressed(root + "/bad/z.npz", x=np.zeros(100))
    whole = open(root + "/npy/a.npy", "rb").read()
    open(root + "/bad/cut.npy", "wb").write(whole[:-8])
    open(root + "/bad/other.npy", "wb").write(b"hello, I am no array\n" * 10)
    np.save(root + "/bad/fortran.npy", np.asfortranarray(np.random.rand(5, 6)))
EOF
check "they are imported" ctl -q import "$DIR/records" /records
samples() { ctl --json dataset show "$1" | sed 's/.*"samples":\([0-9]*\).*/\1/'; }
check "tar" ctl -q dataset create tar /records/tar --records tar
is "... has a sample for each name" 60 "$(samples tar)"
check "tfrecord" ctl -q dataset create tf /records/tf --records tfrecord
is "... has all records" 60 "$(samples tf)"
check "npy" ctl -q dataset create npy /records/npy --records npy
is "... has all rows" 35 "$(samples npy)"
check "npz" ctl -q dataset create npz /records/npz --records npz:x
is "... has the rows of one array" 40 "$(samples npz)"

# Every record, as the manifest places it in its file, is what the library that knows the format reads.
ctl export /.weka/datasets "$DIR/manifests" >/dev/null
check "each record is what its own library reads" /usr/bin/python3 - "$DIR/manifests" "$DIR/records" <<'EOF'
import io, struct, sys, tarfile
import numpy as np
manifests, root = sys.argv[1:]

def records(name):
    data = open("%s/%s/1" % (manifests, name), "rb").read()
    samples, names_at = struct.unpack_from("<Q", data, 16)[0], struct.unpack_from("<Q", data, 56)[0]
    for i in range(samples):
        offset, length, at, path, member = struct.unpack_from("<QQQHH", data, 4096 + 64 * i + 24)
        path, member = data[names_at + at:][:path].decode(), data[names_at + at + path:][:member].decode()
        yield path, member, open(root + path[len("/records"):], "rb").read()[offset:offset + length]

seen = {}
for path, member, data in records("tar"):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        for m in t.getmembers():
            if m.isfile():
                assert m.name.startswith(member + "."), (m.name, member)
                seen[path, m.name] = t.extractfile(m).read()
for shard in range(3):
    with tarfile.open("%s/tar/%d.tar" % (root, shard)) as t:
        for m in t.getmembers():
            if m.isfile():
                assert seen.pop(("/records/tar/%d.tar" % shard, m.name)) == t.extractfile(m).read()
assert not seen, seen.keys()
rows = {(path, int(member)): data for path, member, data in records("npy")}
for name in "ab":
    a = np.load("%s/npy/%s.npy" % (root, name))
    for i in range(len(a)):
        assert rows.pop(("/records/npy/%s.npy" % name, i)) == a[i].tobytes()
assert not rows
x = np.load(root + "/npz/c.npz")["x"]
assert [data for _, _, data in records("npz")] == [row.tobytes() for row in x]
sizes = [len(data) for _, _, data in records("tf")]
assert sizes == [n * 77 for n in range(30)] * 2, sizes
EOF
check "they verify" ctl -q dataset verify tar

bad() { refuses "$1" "$2" $CTL -q dataset create bad /records/bad --glob "$3" --records "$4"; }
bad "a tar that was cut" "cut.tar: .* after the end of the file" cut.tar tar
bad "a TFRecord that was cut" "cut.tfrecord: record 29 ends after the end" cut.tfrecord tfrecord
bad "a TFRecord with a flipped bit" "flipped.tfrecord: " flipped.tfrecord tfrecord
bad "a compressed member" "z.npz: array x is compressed" z.npz npz:x
bad "an array that does not exist" "z.npz: it has no array nothing" z.npz npz:nothing
bad "an array that was cut" "cut.npy: .* it was cut" cut.npy npy
bad "something else" "other.npy: it is no array of NumPy" other.npy npy
bad "Fortran order" "Fortran order" fortran.npy npy
bad "a format that does not exist" "records are one of" "*" parquet

refuses "no such dataset" "no such dataset" $CTL dataset show nothing
refuses "no such version" "no such version" $CTL dataset show pets@9
refuses "a version that is no number" "a number from 1 on" $CTL dataset show pets@x
refuses "a name that is a path" "begins with none of" $CTL dataset create ../x /pets
refuses "no file matches" "matches" $CTL -q dataset create x /pets --glob '*.png'
refuses "no such directory" "No such file" $CTL -q dataset create x /nothing
refuses "an action that does not exist" "is none of create" $CTL dataset make x
refuses "all versions are not dropped by accident" "say which version" $CTL dataset drop pets

check "a version is dropped" ctl dataset drop pets@1
is "the other is there" "pets@2" "$(ctl dataset list pets | cut -d' ' -f1)"
check "all are dropped" ctl dataset drop pets@all
is "the files stay" 60 "$(ctl ls /pets/cat | grep -c bin)"

check "the appliance stops" stop
finish
