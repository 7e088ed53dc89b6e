"""A transfer over TCP with the interface of the QUIC interop runner: the built-in stack `tcp` among programs.

A client requests each file on its own connection, by a line with its name. `LASTHOP_CONTROL` names the
server's congestion control.
"""

import os
import socket
import sys

_PART = 1 << 20


def _serve() -> None:
    control = os.environ.get("LASTHOP_CONTROL")
    listener = socket.create_server(("::", 443), family=socket.AF_INET6, dualstack_ipv6=True)
    if control:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            with connection, connection.makefile("rb") as requests:
                name = os.path.basename(requests.readline().decode().strip())
                with open(f"/www/{name}", "rb") as file:
                    connection.sendfile(file)
            os._exit(0)
        connection.close()


def _fetch(request: str) -> None:
    place, _, name = request.removeprefix("https://").partition("/")
    host, _, port = place.partition(":")
    with socket.create_connection((host, int(port))) as connection, open(f"/downloads/{name}", "wb") as file:
        connection.sendall(f"{name}\n".encode())
        while part := connection.recv(_PART):
            file.write(part)


def main() -> None:
    if os.environ["TESTCASE"] != "transfer":
        sys.exit(127)
    if os.environ["ROLE"] == "server":
        _serve()
    children = []
    for request in os.environ["REQUESTS"].split():
        if (child := os.fork()) == 0:
            _fetch(request)
            os._exit(0)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1]:
            sys.exit("a transfer failed")


main()
