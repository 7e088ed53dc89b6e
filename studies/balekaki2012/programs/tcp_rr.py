"""Requests and responses on one kept connection, as `netperf -t TCP_RR -- -r REQUEST,RESPONSE` has them by its manual.

    server: python3 tcp_rr.py server [UDP_BIT_PER_S]
    client: python3 tcp_rr.py client REQUEST RESPONSE SECONDS

A control connection arranges the test. On a data connection, the client sends a request as soon as it has the whole
response to the last one, until the time is up. Meanwhile the server sends UDP datagrams of 1470 bytes at the given
rate, as iperf does. The client prints what it measured as JSON.
"""

import json
import socket
import statistics
import sys
import threading
import time

CONTROL, DATA, UDP = 12865, 12866, 5001
DATAGRAM = bytes(1470)


def receive(connection: socket.socket, count: int) -> bool:
    """Read so many bytes; false if the stream ends before."""
    while count:
        got = len(connection.recv(min(count, 65536)))
        if not got:
            return False
        count -= got
    return True


def stream(rate: float, to: str, stop: threading.Event) -> None:
    """Send datagrams at a constant rate."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while not stop.wait(len(DATAGRAM) * 8 / rate):
        out.sendto(DATAGRAM, (to, UDP))


def serve(rate: float) -> None:
    """Answer the requests of one test, and send datagrams meanwhile if `rate` is not 0."""
    listeners = [socket.create_server(("", port)) for port in (CONTROL, DATA)]
    control, (client, _) = listeners[0].accept()
    test = json.loads(control.recv(4096))
    stop = threading.Event()
    if rate:
        threading.Thread(target=stream, args=(rate, client, stop), daemon=True).start()
    control.sendall(b"ready")
    data, _ = listeners[1].accept()
    response = bytes(test["response"])
    while receive(data, test["request"]):
        data.sendall(response)
    stop.set()


def ask(request: int, response: int, seconds: float) -> None:
    """Make requests for so long; print how many, and how long the first and the others took."""
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("", UDP))
    control = socket.create_connection(("10.0.0.1", CONTROL))
    control.sendall(json.dumps({"request": request, "response": response}).encode())
    receive(control, len(b"ready"))
    data = socket.create_connection(("10.0.0.1", DATA))
    data.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    start = now = time.monotonic()
    while now - start < seconds:
        data.sendall(bytes(request))
        receive(data, response)
        times.append(time.monotonic() - now)
        now = time.monotonic()
    rest = times[1:] or times
    found = {"transactions": len(times), "first_s": times[0], "mean_s": statistics.fmean(rest), "max_s": max(rest)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
    else:
        ask(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
