"""An endpoint for tests: a client asks every 200 ms, and the server answers 100 ms later.

The server logs the client's port of each question, and the client the number of each answer.
"""

import os
import socket
import threading
import time
from pathlib import Path

QUESTIONS = 15
PERIOD_S, DELAY_S = 0.2, 0.1
PORT = 443


def client() -> None:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect((os.environ["REQUESTS"].removeprefix("https://").split(":")[0], PORT))
    begin = time.monotonic()
    with Path("/logs/answers").open("w") as answers:
        for number in range(QUESTIONS):
            end.send(bytes([number]))
            while (left := begin + PERIOD_S * (number + 1) - time.monotonic()) > 0:
                end.settimeout(left)
                try:
                    answers.write(f"{end.recv(1)[0]}\n")
                except TimeoutError:
                    break


def server() -> None:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("0.0.0.0", PORT))
    with Path("/logs/ports").open("w", buffering=1) as ports:
        while True:
            data, (host, port) = end.recvfrom(1)
            ports.write(f"{port}\n")
            threading.Timer(DELAY_S, end.sendto, (data, (host, port))).start()


client() if os.environ["ROLE"] == "client" else server()
