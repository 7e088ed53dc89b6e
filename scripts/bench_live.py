#!/usr/bin/env python3
"""Measure how punctual and how fast the live emulator is on this machine, beside Linux' token bucket filter.

    .venv/bin/python scripts/bench_live.py [--seconds 10] [--spin MICROSECONDS]

For each rate a TCP connection saturates the link for some seconds. "error" is that of the rate at the receiver: bytes
after the first arrival, up to the last, with the headers they came with. Lateness is the emulator's own record. "pps per
core" is packets over the emulator's processor time, in which the kernel's work for the receiving host is included. Run it
as root, for real-time priority and the token bucket filter, on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RATES = {"64 kbit/s": 64e3, "10 Mbit/s": 10e6, "100 Mbit/s": 100e6, "1 Gbit/s": 1e9}
PACKET, SEGMENT = 1500, 1448
PORT = 9000

SCENARIO = """
name = "bench"
title = "bench"
seed = 1
replications = 1
mtu = "1500 B"
time_limit = "1 min"
lan = {{ rate = "100 Gbit/s", delay = "0 ms" }}
down.queue.limit = "{queue} packets"
down.link = {{ rate = "{rate}", delay = "5 ms", send_buffer = "3000 B", release = "serialised" }}
up.queue.limit = "100000 packets"
up.link = {{ rate = "10 Gbit/s", delay = "5 ms", send_buffer = "3000 B", release = "serialised" }}
tcp.profile = "linux-2.4"
flow = [{{ kind = "bulk-tcp", name = "tcp", bytes = "1 kB", start = "0 s" }}]
"""
SENDER = f"""
import socket
listener = socket.create_server(("", {PORT}))
connection = listener.accept()[0]
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
data = bytes(1 << 18)
while True:
    connection.sendall(data)
"""
RECEIVER = f"""
import socket, sys, time
for attempt in range(200):
    try:
        connection = socket.create_connection((sys.argv[1], {PORT}))
        break
    except OSError:
        time.sleep(0.05)
warm_up, seconds = 1.0, float(sys.argv[2])
buffer = bytearray(1 << 20)
start = time.monotonic()
while time.monotonic() < start + warm_up:
    connection.recv_into(buffer)
first = last = time.monotonic()
received = 0
while last < first + seconds:
    received += connection.recv_into(buffer)
    last = time.monotonic()
print(8 * received / (last - first))
"""


def share(goodput: float, rate: float) -> str:
    """Return by how much the rate on the link, headers included, differs from the stated one."""
    return f"{100 * (goodput * PACKET / SEGMENT / rate - 1):+.3f} %"


def emulated(name: str, rate: float, seconds: float, spin: int) -> str:
    """Run the emulator at this rate; return a line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.toml"
        # A queue of 50 ms, as long as the connection's round trip is needed at least.
        queue = max(20, int(rate * 0.05 / 8 / PACKET))
        file.write_text(SCENARIO.format(rate=name.replace("1 Gbit", "1000 Mbit"), queue=queue), encoding="utf-8")
        command = [sys.executable, "-m", "lasthop.cli", "shell", "--link", str(file), "--spin", str(spin)]
        server = f"exec {sys.executable} -c '{SENDER}'"
        client = [sys.executable, "-c", RECEIVER, "server", str(seconds)]
        done = subprocess.run([*command, "--server", server, "--", *client], capture_output=True, text=True, check=True)
    late = re.search(r"p50 (\d+) us, p99 (\d+) us, p99\.9 (\d+) us, max (\d+) us", done.stderr)
    cpu = re.search(r"cpu +([\d.]+) s", done.stderr)
    delivered = sum(int(number) for number in re.findall(r"(\d+) delivered", done.stderr))
    if late is None or cpu is None:
        raise SystemExit(done.stderr)
    quantiles = "".join(f"{int(value):>9}" for value in late.groups())
    return f"{share(float(done.stdout), rate):>10}{quantiles}{delivered / float(cpu[1]):>14,.0f}"


def token_bucket(rate: float, seconds: float) -> str:
    """Return the error of the rate that Linux' token bucket filter lets through, between two namespaces."""
    peer = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    script = f"""
set -e
sleep 0.2
ip link add near type veth peer name far
ip link set far netns {peer.pid}
ip addr add 10.9.0.1/24 dev near
ip link set near up
nsenter --net=/proc/{peer.pid}/ns/net sh -c 'ip addr add 10.9.0.2/24 dev far; ip link set far up;
  tc qdisc add dev far root tbf rate {int(rate)}bit burst {max(3028, int(rate / 8 / 250))} latency 50ms;
  ethtool -K far tso off gso off 2>/dev/null || ip link set far gso_max_segs 1'
nsenter --net=/proc/{peer.pid}/ns/net {sys.executable} -c '{SENDER}' &
{sys.executable} -c '{RECEIVER}' 10.9.0.2 {seconds}
kill $!
"""
    try:
        done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False)
    finally:
        peer.kill()
        peer.wait()
    # The filter counts 14 bytes of Ethernet header with each packet.
    return share(float(done.stdout) * (PACKET + 14) / PACKET, rate) if done.stdout else f"({done.stderr.strip()})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--spin", type=int, default=0)
    options = parser.parse_args()
    print(
        f"{'rate':<12}{'error':>10}{'p50 us':>9}{'p99 us':>9}{'p99.9 us':>9}{'max us':>9}{'pps per core':>14}   TBF error"
    )
    for name, rate in RATES.items():
        line = emulated(name, rate, options.seconds, options.spin)
        beside = token_bucket(rate, options.seconds) if os.geteuid() == 0 else "(needs root)"
        print(f"{name:<12}{line}   {beside}", flush=True)


if __name__ == "__main__":
    main()
