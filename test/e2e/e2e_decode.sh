#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The example decode: JPEG and PNG files of a dataset become pixels; damaged ones harm nobody.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

DECODE=$BIN/../examples/decode
[ -x "$DECODE" ] || { echo "skip: no libjpeg-turbo or libpng when it was built"; exit 0; }

write_conf "mem:256M"
check "the appliance starts" start

# A red JPEG of 16 x 8; PNGs of 10 x 10, one green, one of two colours, one transparent; and others.
check "images are made" python3 - "$DIR" <<'EOF'
import base64, os, struct, sys, zlib
top = sys.argv[1]
for name in ("good", "bad", "good/red", "good/green"):
    os.mkdir(os.path.join(top, name))

def write(name, data):
    with open(os.path.join(top, name), "wb") as f:
        f.write(data)

def png(kind, rows, width=10, height=10, **chunks):
    def chunk(tag, data):
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))
    extra = b"".join(chunk(tag.encode(), data) for tag, data in chunks.items())
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)) + extra +
            chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))

red = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ"
    "EBAQEBAQH/2wBDAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQH/wAARCAAI"
    "ABADASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAn/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAACQr/xA"
    "AUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCL4Ap1/D//2Q==")
green = png(2, [b"\0\xff\0" * 10] * 10)
for n in range(100):
    write("good/red/%d.jpg" % n, red)
for n in range(40):
    write("good/green/%d.png" % n, green)
write("good/green/palette.png", png(3, [bytes([0, 1] * 5)] * 10, PLTE=b"\x64\0\0\0\0\x64"))
write("good/green/clear.png", png(6, [b"\0\0\0\0" * 10] * 10))
for n in range(10, len(red) - 20, 9):
    write("bad/cut%d.jpg" % n, red[:n])
for n in range(10, len(green) - 12, 3):
    write("bad/cut%d.png" % n, green[:n])
write("bad/large.png", png(2, [b""], 1 << 30, 1 << 30))
write("bad/text.jpg", b"no image at all")
write("bad/empty.png", b"")
EOF
check "... and imported" ctl -q import "$DIR/good" /good
check "... with the others" ctl -q import "$DIR/bad" /bad
for part in red green; do
	check "a dataset of the $part ones" ctl -q dataset create "$part" "/good/$part"
done
check "a dataset of all" ctl -q dataset create all /

# decoded DATASET ARGUMENT...: the last line that decode prints.
decoded() {
	dataset=$1
	shift
	"$DECODE" "$SHM" "$DIR/key" "$dataset" "$@" 2>&1 | tail -1
}
is "JPEGs have the right pixels" "100 images, 0 others, 12800 pixels, mean colour 254.0 0.0 0.0" "$(decoded red)"
# 40 green ones, 50 pixels of (100, 0, 0) and of (0, 0, 100), 100 white ones
is "PNGs too" "42 images, 0 others, 4200 pixels, mean colour 7.3 248.9 7.3" "$(decoded green 3)"
is "two epochs, as many threads as ranks" "200 images, 0 others, 25600 pixels, mean colour 254.0 0.0 0.0" \
	"$(decoded red 5 2)"
bad=$(find "$DIR/bad" -type f | wc -l)
is "damaged ones are counted, and harm nobody" "142 images, $bad others, 17000 pixels" "$(decoded all | cut -d, -f1-3)"
is "over TCP, too" "142 images" "$("$DECODE" "$TCP" "$DIR/key" all 1 2>&1 | tail -1 | cut -d, -f1)"
check "a dataset that is not there is an error" sh -c "! '$DECODE' '$SHM' '$DIR/key' none 1"
finish
