#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Compares a dataset of `weka-bench mlperf --keep` with what DLIO makes for the same parameters.

Usage: dlio_layout.py DIR WORKLOAD FILES SAMPLES

The rules were written down from dlio_benchmark/data_generator/ of argonne-lcf/dlio_benchmark:
names, sizes from int(sqrt(record_length)), one array x and one y for npz, tf.train.Example for
TFRecord.  numpy itself reads and writes the npz files; TFRecords are parsed here, byte by byte.
"""
import io
import math
import os
import statistics
import struct
import sys

import numpy

WORKLOADS = {  # format, prefix, record length, deviation
    "unet3d": ("npz", "img", 146600628, 68341808),
    "resnet50": ("tfrecord", "img", 114660.07, 0),
    "cosmoflow": ("tfrecord", "img", 2828486, 71311),
    "bert": ("tfrecord", "part", 2500, 0),
    "retinanet": ("jpeg", "img", 322957, 0),
    "flux": ("parquet", "img", 2164832, 0),
    "dlrm": ("parquet", "img", 761, 0),
}


def fail(text):
    sys.exit(f"dlio_layout: {text}")


def wanted_names(prefix, extension, files):
    width = len(str(files))
    return {f"{prefix}_{i:0{width}d}_of_{files}.{extension}" for i in range(files)}


def check_npz(path, length, deviation):
    data = numpy.load(path)
    if set(data.files) != {"x", "y"}:
        fail(f"{path}: arrays {data.files}")
    x, y = data["x"], data["y"]  # numpy compares the checksums
    if x.dtype != numpy.uint8 or x.ndim != 3 or x.shape[2] != 1 or list(y) != [0]:
        fail(f"{path}: {x.dtype} {x.shape}, y {y}")
    again = io.BytesIO()
    numpy.savez(again, x=x, y=[0])
    if len(again.getvalue()) != os.path.getsize(path):
        fail(f"{path}: numpy writes {len(again.getvalue())} bytes, not {os.path.getsize(path)}")
    return x.shape[0], x.shape[1]


TABLE = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message: number -> list of their bytes, or of their numbers."""
    at, found = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            value, at = varint(data, at)
        found.setdefault(key >> 3, []).append(value)
    return found


def check_record(path, record, length):
    features = {}
    for entry in fields(fields(record)[1][0])[1]:
        e = fields(entry)
        features[e[1][0].decode()] = fields(e[2][0])
    if set(features) != {"image", "size"}:
        fail(f"{path}: features {set(features)}")
    size = varint(fields(features["size"][3][0])[1][0], 0)[0]
    if size != int(math.sqrt(length)):
        fail(f"{path}: size {size}")
    return len(fields(features["image"][1][0])[1][0])


def check_tfrecord(path, length, samples, sums):
    images, count = set(), 0
    with open(path, "rb") as f:
        while header := f.read(12):
            (size,) = struct.unpack("<Q", header[:8])
            record, crc = f.read(size), struct.unpack("<I", f.read(4))[0]
            if count == 0 and sums:
                if struct.unpack("<I", header[8:])[0] != masked_crc32c(header[:8]):
                    fail(f"{path}: the checksum of a length is wrong")
                if crc != masked_crc32c(record):
                    fail(f"{path}: the checksum of a record is wrong")
            images.add(check_record(path, record, length))
            count += 1
    if count != samples or len(images) != 1:
        fail(f"{path}: {count} records of {images} bytes, not {samples}")
    return images.pop()


def check_ends(path, first, last):
    with open(path, "rb") as f:
        begins = f.read(len(first))
        f.seek(-len(last), os.SEEK_END)
        ends = f.read()
    if begins != first or ends != last:
        fail(f"{path}: begins {begins}, ends {ends}")


def check_distribution(what, values, mean, deviation):
    n = len(values)
    if n < 100 or not deviation:
        return
    if abs(statistics.mean(values) - mean) > 5 * deviation / math.sqrt(n):
        fail(f"{what}: mean {statistics.mean(values)}, not {mean}")
    if not 0.8 < statistics.stdev(values) / deviation < 1.25:
        fail(f"{what}: deviation {statistics.stdev(values)}, not {deviation}")


def main():
    where, workload, files, samples = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    extension, prefix, length, deviation = WORKLOADS[workload]
    train = os.path.join(where, workload, "train")
    names = set(os.listdir(train))
    if names != wanted_names(prefix, extension, files):
        fail(f"names differ, such as {sorted(names ^ wanted_names(prefix, extension, files))[:3]}")
    dimension = int(math.sqrt(length))
    sizes = []
    for name in sorted(names):
        path = os.path.join(train, name)
        size = os.path.getsize(path)
        if extension == "npz":
            sizes += check_npz(path, length, deviation)
        elif extension == "tfrecord":
            image = check_tfrecord(path, length, samples, not sizes)
            if not deviation and image != dimension * dimension:
                fail(f"{path}: an image of {image} bytes, not {dimension}^2")
            sizes.append(image)
        elif extension == "jpeg":
            check_ends(path, b"\xff\xd8\xff", b"\xff\xd9")
            if size != int(length):
                fail(f"{path}: {size} bytes")
        else:
            check_ends(path, b"PAR1", b"PAR1")
            if not length * samples <= size < length * samples * 1.02:
                fail(f"{path}: {size} bytes for {samples} rows of {length}")
    if extension == "tfrecord":  # a product of two draws
        check_distribution(workload, sizes, dimension ** 2, deviation / math.sqrt(2))
    if extension == "npz":
        for d in sizes:
            if abs(d - dimension) > 6 * deviation / 2 / math.sqrt(length):
                fail(f"{workload}: a dimension of {d}")


main()
