#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""A link to an appliance that can be cut: relays what comes at HOST:PORT to 127.0.0.1:TARGET.

    link.py HOST PORT TARGET FILE

FILE says how many bytes have come from there, about; it is there when connections are taken.  Killed, it takes all its connections with it.
"""
import selectors
import socket
import sys


def main():
    host, port, target, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    listener = socket.create_server((host, port))
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    carried = 0
    told = -1
    while True:
        if told < 0 or carried - told > 100000:
            told = carried
            with open(path, "w", encoding="ascii") as file:
                file.write(str(told))
        for key, _ in ready.select():
            if key.data is None:
                near = listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", target))
                for here, there in ((near, far), (far, near)):
                    here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    ready.register(here, selectors.EVENT_READ, (there, here is far))
                continue
            there, is_back = key.data
            try:
                data = key.fileobj.recv(1 << 18)
                there.sendall(data)
            except OSError:
                data = b""
            carried += len(data) * is_back
            if not data:
                for end in (key.fileobj, there):
                    if end in ready.get_map():
                        ready.unregister(end)
                    end.close()


main()
