#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Stands between a client and the appliance and writes what both say as a capture of TCP segments.

    record.py LISTEN_PORT TARGET_PORT FILE.pcap [SEED]

Capturing on an interface needs rights that a test may not have; and here the segments are as small
and as odd as no loopback makes them, so that what is put together again was really apart.
Ends when killed; the file is whole after each segment.

Ports in the capture are always the same: Wireshark gives some, such as 17500 and 24800, to other
protocols, and then never asks us.
"""
import itertools
import random
import selectors
import socket
import struct
import sys
import time


class Capture:
    """A pcap file (link type 101: IPv4 packets without Ethernet)."""

    def __init__(self, path, seed):
        self.file = open(path, "wb", buffering=0)
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        self.random = random.Random(seed)

    def packet(self, ports, seq, ack, flags, data=b""):
        tcp = struct.pack(">HHIIBBHHH", *ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 5 << 4, flags, 65535, 0, 0) + data
        addresses = socket.inet_aton("127.0.0.1") * 2
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + addresses
        now = time.time()
        size = len(ip) + len(tcp)
        self.file.write(struct.pack("<IIII", int(now), int(now % 1 * 1e6), size, size) + ip + tcp)

    def cut(self, data, first):
        """Pieces of 1 to 9,000 bytes, small ones as likely as large ones; a stream's first is not tiny."""
        while data:
            size = int(2 ** self.random.uniform(5 if first else 0, 13.1))
            first = False
            yield data[:size]
            data = data[size:]


class Relay:
    SYN, ACK, PUSH, FIN = 2, 16, 8, 1
    APPLIANCE = 51000
    clients = itertools.count(APPLIANCE + 1)

    def __init__(self, capture, client, target_port):
        self.capture = capture
        self.ends = (client, socket.create_connection(("127.0.0.1", target_port)))
        port = next(self.clients)
        self.ports = ((port, self.APPLIANCE), (self.APPLIANCE, port))
        self.seq = [1, 1]
        capture.packet(self.ports[0], 0, 0, self.SYN)
        capture.packet(self.ports[1], 0, 1, self.SYN | self.ACK)
        capture.packet(self.ports[0], 1, 1, self.ACK)

    def move(self, side):
        """From ends[side] to the other.  False: that was the end."""
        try:
            data = self.ends[side].recv(1 << 20)
        except OSError:
            data = b""
        for piece in self.capture.cut(data, self.seq[side] == 1):
            self.capture.packet(self.ports[side], self.seq[side], self.seq[1 - side], self.ACK | self.PUSH, piece)
            self.seq[side] += len(piece)
        if not data:
            self.capture.packet(self.ports[side], self.seq[side], self.seq[1 - side], self.ACK | self.FIN)
            return False
        try:
            self.ends[1 - side].sendall(data)
        except OSError:
            return False
        return True


def main():
    listen_port, target_port, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    capture = Capture(path, int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    listener = socket.create_server(("127.0.0.1", listen_port))
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.data is None:
                relay = Relay(capture, listener.accept()[0], target_port)
                for side in (0, 1):
                    ready.register(relay.ends[side], selectors.EVENT_READ, (relay, side))
            elif key.fileobj.fileno() >= 0 and not key.data[0].move(key.data[1]):
                for end in key.data[0].ends:
                    if end.fileno() >= 0:
                        ready.unregister(end)
                        end.close()


main()
