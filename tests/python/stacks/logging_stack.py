"""An endpoint for tests: it sends a file over UDP and writes a qlog that declares one loss too many.

The server numbers its datagrams; the client answers each with its number. After 0.2 s without an answer, the
server declares what is missing lost and sends it again under new numbers. In addition it declares number 2
lost when it is answered. With NO_LOG in the environment, it writes no log.
"""

import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

PART = 1000
PORT = 443
WAIT_S = 0.2
HEAD = struct.Struct("!III")


def client(url: str) -> None:
    host, name = url.removeprefix("https://").split("/", 1)
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect((host.split(":")[0], PORT))
    end.settimeout(10)
    end.send(name.encode())
    parts, total = {}, 1
    while len(parts) < total:
        number, place, total = HEAD.unpack((data := end.recv(2000))[: HEAD.size])
        parts[place] = data[HEAD.size :]
        end.send(struct.pack("!II", number, 0))
    Path("/downloads", name).write_bytes(b"".join(parts[place] for place in sorted(parts)))


class Server:
    def __init__(self) -> None:
        self.end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.end.bind(("0.0.0.0", PORT))
        name, self.peer = self.end.recvfrom(2000)
        content = Path("/www", name.decode()).read_bytes()
        self.parts = [content[at : at + PART] for at in range(0, len(content), PART)]
        self.file = None if "NO_LOG" in os.environ else Path(os.environ["QLOGDIR"], "a.sqlog")
        self.write({"title": "candid", "trace": {"vantage_point": {"type": "server"}}})
        self.sent: dict[int, tuple[int, float]] = {}
        self.number = 0

    def write(self, record: object) -> None:
        if self.file is not None:
            with self.file.open("a") as log:
                log.write(f"\x1e{json.dumps(record)}\n")

    def log(self, name: str, **data: object) -> None:
        self.write({"time": 1e3 * time.monotonic(), "name": name, "data": data})

    def send(self, place: int) -> None:
        data = HEAD.pack(self.number, place, len(self.parts)) + self.parts[place]
        header = {"packet_type": "1RTT", "packet_number": self.number}
        self.end.sendto(data, self.peer)
        self.log("transport:packet_sent", header=header, raw={"length": len(data)})
        self.sent[self.number] = place, time.monotonic()
        self.number += 1

    def lose(self, number: int) -> None:
        header = {"packet_type": "1RTT", "packet_number": number}
        self.log("recovery:packet_lost", header=header)

    def hear(self) -> None:
        """Process an answer; raise `TimeoutError` if there is none."""
        data = self.end.recv(2000)
        number = struct.unpack("!II", data)[0]
        frames = [{"frame_type": "ack", "acked_ranges": [[number]]}]
        header = {"packet_type": "1RTT", "packet_number": number}
        raw = {"length": len(data)}
        self.log("transport:packet_received", header=header, raw=raw, frames=frames)
        if number not in self.sent:
            return
        _, begin = self.sent.pop(number)
        if number == 2:
            self.lose(number)
        rtt = 1e3 * (time.monotonic() - begin)
        flying = sum(len(self.parts[place]) for place, _ in self.sent.values())
        values = {"latest_rtt": rtt, "smoothed_rtt": rtt, "bytes_in_flight": flying}
        self.log("recovery:metrics_updated", congestion_window=5 * PART, **values)

    def run(self) -> None:
        self.end.settimeout(WAIT_S)
        self.log("recovery:congestion_state_updated", new="slow_start")
        waiting = list(range(len(self.parts)))
        while waiting or self.sent:
            while waiting and len(self.sent) < 5:
                self.send(waiting.pop(0))
            try:
                self.hear()
            except TimeoutError:
                self.log("recovery:congestion_state_updated", new="recovery")
                for number in list(self.sent):
                    self.lose(number)
                    waiting.append(self.sent.pop(number)[0])


if os.environ["TESTCASE"] != "transfer":
    sys.exit(127)
if os.environ["ROLE"] == "client":
    client(os.environ["REQUESTS"])
else:
    Server().run()
