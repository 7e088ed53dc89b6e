"""Requests and responses as `netperf -t TCP_RR -l LENGTH -- -r REQUEST,RESPONSE` has them by its manual.

    server: python3 tcp_rr.py server [UDP_BIT_PER_S]
    client: python3 tcp_rr.py client REQUEST RESPONSE SECONDS [LENGTH]

A control connection arranges a test. On a data connection, the client sends a request as soon as it has the
whole response to the last one, until the test has lasted LENGTH seconds. Then it closes that connection, and
the results come back on the other. Tests follow each other for so many SECONDS, after pauses of 20 ms in the
mean; without LENGTH there is one. Meanwhile the server sends UDP datagrams of 1470 bytes at the given rate,
as iperf does. The client prints what it measured as JSON.
"""

import json
import random
import socket
import statistics
import sys
import threading
import time

CONTROL, DATA, UDP = 12865, 12866, 5001
MESSAGE = 256
"""Size of messages on a control connection, netperf's."""
PAUSES_PER_S = 50
DATAGRAM = bytes(1470)


def receive(connection: socket.socket, count: int) -> bytes:
    """Read so many bytes; fewer if the stream ends before."""
    got = b""
    while len(got) < count and (more := connection.recv(min(count - len(got), 65536))):
        got += more
    return got


def stream(rate: float, to: str, stop: threading.Event) -> None:
    """Send datagrams at a constant rate."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while not stop.wait(len(DATAGRAM) * 8 / rate):
        out.sendto(DATAGRAM, (to, UDP))


def serve(rate: float) -> None:
    """Answer the requests of tests, one after another, and send datagrams meanwhile if `rate` is not 0."""
    listeners = [socket.create_server(("", port)) for port in (CONTROL, DATA)]
    stop = threading.Event()
    while True:
        control, (client, _) = listeners[0].accept()
        wanted = receive(control, MESSAGE)
        if not wanted:  # There are no more tests.
            stop.set()
            return
        if rate and threading.active_count() == 1:
            threading.Thread(target=stream, args=(rate, client, stop), daemon=True).start()
        control.sendall(bytes(MESSAGE))
        data, _ = listeners[1].accept()
        test = json.loads(wanted)
        response = bytes(test["response"])
        while receive(data, test["request"]):
            data.sendall(response)
        data.close()
        control.sendall(bytes(MESSAGE))
        receive(control, 1)
        control.close()


def one_test(request: int, response: int, length: float) -> list[float]:
    """Make requests for so long; return how long each took, the first with the connection's handshake."""
    control = socket.create_connection(("10.0.0.1", CONTROL))
    control.sendall(json.dumps({"request": request, "response": response}).ljust(MESSAGE).encode())
    receive(control, MESSAGE)
    times = []
    start = now = time.monotonic()
    data = socket.create_connection(("10.0.0.1", DATA))
    data.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while now - start < length:
        data.sendall(bytes(request))
        receive(data, response)
        times.append(time.monotonic() - now)
        now = time.monotonic()
    data.close()
    receive(control, MESSAGE)
    control.close()
    return times


def ask(request: int, response: int, seconds: float, length: float | None) -> None:
    """Make tests for so long, or one.

    Print how many requests, and how long the first ones of tests and others took.
    """
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("", UDP))
    start, first, others = time.monotonic(), [], []
    pauses = random.Random(2012)
    while time.monotonic() - start < seconds:
        times = one_test(request, response, seconds if length is None else length)
        first.append(times[0])
        others += times[1:]
        time.sleep(pauses.expovariate(PAUSES_PER_S))
    socket.create_connection(("10.0.0.1", CONTROL)).close()
    found = {
        "transactions": len(first) + len(others),
        "tests": len(first),
        "first_s": statistics.fmean(first),
    }
    rest = others or first
    sys.stdout.write(json.dumps({**found, "mean_s": statistics.fmean(rest), "max_s": max(rest)}))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
    else:
        ask(
            int(sys.argv[2]),
            int(sys.argv[3]),
            float(sys.argv[4]),
            float(sys.argv[5]) if len(sys.argv) > 5 else None,
        )
