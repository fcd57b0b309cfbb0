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
is "the content hash is the one of the protocol" "$content" "$(python3 - "$DIR/tree" <<'EOF'
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
