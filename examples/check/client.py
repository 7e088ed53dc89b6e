"""Uploads a megabyte over HTTP in parts, and repeats parts that time out."""

import http.client
import sys
import time

PARTS, PART = 8, 125_000


def send(number: int, timeout_s: float) -> None:
    """Send a part, and wait for the server's response."""
    connection = http.client.HTTPConnection("server", timeout=timeout_s)
    connection.request("PUT", f"/part/{number}", bytes(PART))
    connection.getresponse().read()
    connection.close()


def upload(first_timeout_s: float) -> None:
    """Send all parts; the timeout of a part doubles with each attempt."""
    for number in range(PARTS):
        timeout_s = first_timeout_s
        while True:
            try:
                send(number, timeout_s)
                break
            except OSError:
                time.sleep(timeout_s / 2)
                timeout_s *= 2


upload(float(sys.argv[1]) if len(sys.argv) > 1 else 1.5)
