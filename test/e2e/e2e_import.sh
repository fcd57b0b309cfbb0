#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Import and export touch nothing outside of their target, keep what a tree is made of, and say what
# they could not do: symlinks in the way, holes, times, links, files that change, damage, a full store.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"
ENTRIES=1000 PAIRS=40
[ "${TEST_LENGTH:-short}" = short ] || ENTRIES=134000 PAIRS=3000
[ "${TEST_LENGTH:-short}" != proof ] || PAIRS=20000

D0=file:$DIR/d0?size=512M
[ $ENTRIES = 1000 ] || D0=file:$DIR/d0?size=4G
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
# A short run says the same of the same tree; longer ones look for what nobody has thought of.
[ "${TEST_LENGTH:-short}" != short ] || : "${SEED:=1}"
SEED=${SEED:-$(date +1%N)}
ODD="python3 test/e2e/odd_tree.py"
HERE=$PWD
cd "$DIR" || exit 1
odd() { (cd "$HERE" && $ODD "$@"); }
is_a() { ctl stat "$2" | grep -q ": $1, "; }
# said NAME STATUS TEXT COMMAND...: it ends with this status and a line that holds TEXT.
said() {
	name=$1 status=$2 text=$3
	shift 3
	"$@" >said.out 2>&1
	got=$?
	if [ $got != "$status" ]; then not_ok "$name" "exit status $got: $(tail -3 said.out)"
	elif ! grep -q -- "$text" said.out; then not_ok "$name" "no '$text' in: $(tail -3 said.out)"
	else ok "$name"; fi
}

# ---- symlinks in the way, in the appliance ----
mkdir t && echo precious >t/precious && ln -s precious t/a
check "a tree with a symlink" ctl import t /t
rm t/a && echo new >t/a && touch -d 2001-01-01 t/precious
check "a file where the symlink was" ctl import t /t
is "what the symlink led to is what it was" precious "$(ctl cat /t/precious)"
check "the file has replaced the symlink" is_a file /t/a
mkdir o t/sub && echo outside >o/f && ln -s /o t/d && ln -s /o/f t/e
ctl import o /o >/dev/null && ctl import t /t >/dev/null
rm t/d t/e && mkdir t/d && echo inside >t/d/f && echo inside >t/e
check "a directory where a symlink to one was" ctl import t /t
is "what lies outside of the target is what it was" outside "$(ctl cat /o/f)"
is "what lies inside is new" inside "$(ctl cat /t/d/f)"
# ---- a conflict of types ends one entry ----
rm -r t/d && echo file >t/d && mkdir t/zz && echo more >t/zz/f && mkdir t/precious.d && rm -r t/sub && ln -s x t/sub
said "a directory that is not empty stays, and is named" 1 "t/d: not imported" ctl import t /t
is "with what is in it" inside "$(ctl cat /t/d/f)"
check "an empty one gives way" is_a symlink /t/sub
is "the rest is imported" more "$(ctl cat /t/zz/f)"
check "with --force it gives way, too" ctl --force import t /t
is "to what the source has" file "$(ctl cat /t/d)"

# ---- symlinks in the way, here ----
mkdir e victim r r/real && echo victim >victim/f && ln -s ../victim e/real && echo fresh >r/real/f && echo fresh >r/g && ln -s ../victim/f e/g
check "a tree to export" ctl import r /r
check "export over symlinks" ctl export /r e
is "what they led to is what it was" victim "$(cat victim/f)"
check "what was exported is what was asked for" odd same "$DIR/r" "$DIR/e"
check "and once more" ctl export /r e

# ---- an export that is interrupted ----
make_tree i 600
check "a tree of many files" ctl import i /i
# each_is_whole DIR: a file that has its name has its content, mode and time, too.
each_is_whole() {
	# shellcheck disable=SC2016 # names may have a newline
	find "$1" -type f ! -name '.wk-part-*' -exec sh -c 'for f; do
		was=i/${f#*/}
		cmp "$f" "$was" && [ "$(stat -c "%a %Y %s" "$f")" = "$(stat -c "%a %Y %s" "$was")" ] || exit 1
	done' sh {} +
}
for n in 1 40 300; do # files that are there when it is killed
	rm -rf i2
	# Not by ctl: $! would be a subshell of ours, and the export would go on without it.
	"$BIN/wekactl" -c "$SHM" -k "$DIR/key" -q export /i i2 >/dev/null 2>&1 & cut=$!
	until [ "$(find i2 -type f ! -name '.wk-part-*' 2>/dev/null | wc -l)" -ge $n ] || ! kill -0 $cut 2>/dev/null; do :; done
	kill -9 $cut 2>/dev/null
	wait $cut 2>/dev/null
	check "interrupted after some $n files, all that have names are whole" each_is_whole i2
done
check "it is run again" ctl export /i i2
# The kill leaves a file of a temporary name.  The test ignores it: removing it would change the time of
# its directory.
all_but_parts() {
	describe i >tree.a && describe i2 | LC_ALL=C grep -av '/\.wk-part-' >tree.b
	diff tree.a tree.b
}
check "and completes" all_but_parts

# ---- holes ----
mkdir h && truncate -s 1T h/hole && truncate -s 2G h/few
printf 'data%4092sdata%4092s' '' '' | dd of=h/few bs=4096 seek=1000 conv=notrunc 2>/dev/null
check "files of holes go in" ctl import h /h
is "nothing is stored of them" 8192 "$(ctl du /h | sed 's/.* bytes, \([0-9]*\) on drives.*/\1/')"
check "and come out" ctl export /h h2
at_most() { [ "$(du -k "$1" | cut -f1)" -le "$2" ]; }
check "as holes" at_most h2 64
check "the same" odd same "$DIR/h" "$DIR/h2"

# ---- times, links, a file that changes ----
mkdir x && touch -d 2381-01-01 x/far && touch -d 2020-01-01 x/near && touch -d 2000-02-02 x
said "a time that cannot be stored is named" 1 "x/far: its time is beyond" ctl import x /x
is "and is not a time of long ago" 2262 "$(ctl stat /x/far | sed 's/.*changed \([0-9]*\)-.*/\1/')"
odd=$(printf 'x/\033[2Jodd\nname') && mkfifo "$odd"
said "what is no file is named, without what a terminal would obey" 1 'x/?\[2Jodd?name: not a file' ctl import x /x
rm "$odd"
mkdir l && ln -s to l/one && ln l/one l/two
check "a symlink of two names" ctl import l /l
check "goes out" ctl export /l l2
check "as one" odd same "$DIR/l" "$DIR/l2"
mkdir many && python3 -c 'for i in range(300): open("many/%03d" % i, "w").write("file %d" % i)'
check "files, 300 of them" ctl import many /many
rm many/* && echo all >many/000 && for i in $(seq -w 1 299); do ln many/000 "many/$i"; done
said "which become names of one, while as many requests as may be are in flight" 0 "299 more links" ctl import many /many
check "go out" ctl export /many many2
check "as one" odd same "$DIR/many" "$DIR/many2"
mkdir c && head -c 40000000 /dev/zero | tr '\0' z >c/grows
# One process on each CPU changes it: one alone might not run for as long as a whole try of the import.
mkfifo grows.begun
python3 - >grows.begun <<'PY' &
import os
begun, begins = os.pipe()
cpus = os.sched_getaffinity(0)
for cpu in cpus:
    if os.fork() == 0:
        os.sched_setaffinity(0, {cpu})
        fd = os.open("c/grows", os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"x")
        os.write(begins, b"x")
        while os.path.exists("c/grows") and not os.path.exists("grows.enough"):
            os.write(fd, b"x")
        os._exit(0)
for cpu in cpus:
    os.read(begun, 1)
print("begun", flush=True)
for cpu in cpus:
    os.wait()
PY
GROWS=$!
is "a file grows" begun "$(head -n 1 grows.begun)"
said "a file that does not stand still is named" 1 "c/grows: changed while it was read" ctl import c /c
: >grows.enough
wait $GROWS
check "the next import takes it" ctl import c /c

# ---- damage ----
mkdir v && python3 - <<'PY'
for i in range(40):
    open("v/%d" % i, "wb").write(b"<%06d>" % i * 1250)
open("v/large", "wb").write(b"verify! " * 300000)
PY
check "files to be damaged" ctl import v /v
stop
python3 - <<'PY'
import mmap, os
with open("d0", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    for text in [b"<%06d>" % i * 500 for i in range(7)] + [b"verify! " * 400]:
        at = m.find(text)
        assert at >= 0
        m[at:at + 4000] = bytes(4000)
    m.flush()
    m.close()
    # The appliance reads and writes it past the page cache, where nothing of ours may be left.
    os.fsync(f.fileno())
    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
PY
check "it starts again" start
fails() { ! "$@"; }
check "what is damaged cannot be read" fails ctl cat /v/3
said "an import that only looks finds nothing to do" 0 "41 were there already" ctl import v /v
said "one that compares repairs what is damaged" 0 "33 were there already), 8 repaired" ctl --verify import v /v
check "now it can be read" ctl cat /v/3
said "then nothing differs" 0 "41 were there already), 0 errors" ctl --verify import v /v
tr 0 1 <v/5 >other && chmod --reference=v/5 other && touch -r v/5 other
check "other content of the same size and time" ctl put other /v/5
said "is not seen without" 0 "41 were there already" ctl import v /v
said "and is with" 0 ", 1 repaired, 0 errors" ctl --verify import v /v
ctl export /v v2 >/dev/null
check "then it is the same" odd same "$DIR/v" "$DIR/v2"

# ---- odd trees, in, out and in again ----
echo "# seed $SEED"
check "an odd tree is made" odd make "$DIR/odd" $ENTRIES "$SEED"
check "it goes in" ctl import odd /odd
check "it comes out" ctl export /odd odd.out
check "the same, entry by entry" odd same "$DIR/odd" "$DIR/odd.out"
chmod -R u+rwX odd.out 2>/dev/null; rm -rf odd.out
few() { (ulimit -n 110 && ctl "$@"); }
check "and with few descriptors" few export /odd odd.few
check "no less" odd same "$DIR/odd" "$DIR/odd.few"
check "in with few, too" few import odd.few /odd.few
rm -rf odd.few
check "it changes" odd change "$DIR/odd" "$SEED"
check "and goes in again" ctl --force import odd /odd
odd plant "$DIR/odd" "$DIR/hostile" "$DIR/canary" "$SEED"
before=$(odd sum "$DIR/canary")
check "it comes out over a hostile tree" ctl export /odd hostile
is "nothing outside of it was written" "$before" "$(odd sum "$DIR/canary")"
check "all of it came out" odd compare "$DIR/odd" "$DIR/hostile"
(cd "$HERE" && python3 test/e2e/tree_pairs.py "$DIR" "$SEED" $PAIRS "$BIN/wekactl" -c "$SHM" -k "$DIR/key") >pairs.out 2>&1 &&
	ok "pairs of trees" || not_ok "pairs of trees" "$(cat pairs.out)"
check "the appliance stops" stop
check "every invariant holds" "$BIN/wekactl" check "$D0"

# ---- a full store ----
F0=file:$DIR/f0?size=64M
write_conf "$F0"
"$BIN/wekactl" format "$F0" >/dev/null
check "a small appliance starts" start
mkdir full && head -c 200000 /dev/urandom >full/f0
i=1; while [ $i -lt 400 ]; do cp full/f0 full/f$i; i=$((i + 1)); done
ctl import full /full >full.out 2>&1
is "an import that does not fit fails" 1 $?
is "in one line" 1 "$(grep -c '^wekactl:' full.out)"
check "which says why" grep -q 'No space left on device; [0-9]* entries were not stored for this, and [0-9]* were not tried' full.out
sum() { sed -n 's/^import: \([0-9]*\) files.* \([0-9]*\) not tried, \([0-9]*\) errors.*/\1 \2 \3/p' full.out | awk '{ print $1 + $2 + $3 }'; }
is "and leaves out none" 400 "$(sum)"
check "the appliance's log says so" eventually grep -q 'warning: WEKA-301: the store is full' daemon.log
is "once" 1 "$(grep -c 'the store is full' daemon.log)"
check "there is room again" ctl -r rm /full
echo x >s && check "for a file" ctl put s /s
finish
