#!/usr/bin/env python3
"""Measure how punctual and how fast the live emulator is on this machine, beside Linux' token bucket filter.

    .venv/bin/python benches/live.py [--seconds 10] [--spin MICROSECONDS]

For each rate datagrams saturate the link for some seconds. "error" is that of the rate at the receiver, by
the kernel's times of arrival and with the headers. Lateness is the emulator's own record. "pps/core" is
packets over the emulator's processor time, in which the kernel's work for the receiving host is included. Run
it as root, for real-time priority and the token bucket filter, on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

RATES = {"64 kbit/s": 64e3, "10 Mbit/s": 10e6, "100 Mbit/s": 100e6, "1 Gbit/s": 1e9}
PACKET = 1500
DATAGRAM = 1472
SHARE = DATAGRAM / PACKET
BURST_S = 5e-4
"""One system call sends the datagrams of this much time, and the kernel cuts it into packets.

Sent one by one at 1 Gbit/s, they would cost more than forwarding them.
"""
SINGLE_PACKETS_UP_TO = 100e6
"""Rate up to which Linux' token bucket filter gets packets one by one."""
READ_INTERVAL_S = 2e-3
"""How often the receiver looks for new packets."""
WARM_UP_S = 1.0
PORT = 9000

SCENARIO = """
name = "bench"
title = "bench"
seed = 1
replications = 1
mtu = "1500 B"
time_limit = "1 min"
lan = {{ rate = "100 Gbit/s", delay = "0 ms" }}
down.queue.limit = "30000 packets"
down.link = {{ rate = "{rate}", delay = "5 ms", send_buffer = "3000 B", release = "serialised" }}
up.queue.limit = "100000 packets"
up.link = {{ rate = "10 Gbit/s", delay = "5 ms", send_buffer = "3000 B", release = "serialised" }}
tcp.profile = "linux-2.4"
flow = [{{ kind = "bulk-tcp", name = "tcp", bytes = "1 kB", start = "0 s" }}]
"""
SENDER = f"""
import socket, sys, time
UDP_SEGMENT = 103
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
burst = int(sys.argv[2])
if burst > 1:
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, {DATAGRAM})
# A little more than passes, so that the link is never idle.
interval = 8 * {PACKET} * burst / float(sys.argv[1]) / 1.05
due = time.monotonic()
while True:
    try:
        sender.sendto(bytes({DATAGRAM} * burst), (sys.argv[3], {PORT}))
    except OSError:
        pass
    due += interval
    time.sleep(max(0, due - time.monotonic()))
"""
RECEIVER = f"""
import ctypes, socket, struct, sys, time
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
except PermissionError:
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
receiver.bind(("", {PORT}))

class Message(ctypes.Structure):  # struct mmsghdr with neither address nor room for data
    _fields_ = [("header", ctypes.c_char * 56), ("length", ctypes.c_uint)]

batch = (Message * 64)()
receive_many = ctypes.CDLL(None).recvmmsg

def receive():
    # The kernel notes when the packet came, however late this process reads it.
    data, notes, _, _ = receiver.recvmsg({PACKET}, 64)
    whole, nanos = struct.unpack("qq", notes[0][2])
    return whole + nanos / 1e9

def receive_for(seconds):
    # What is there at a time: to be woken for each packet would cost the emulator more than handing it over.
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        got = receive_many(receiver.fileno(), batch, len(batch), socket.MSG_DONTWAIT, None)
        if got > 0:
            count += got
        else:
            time.sleep({READ_INTERVAL_S})
    return count

receive()
receive_for({WARM_UP_S})
first = receive()
count = receive_for(float(sys.argv[2])) + 1
last = receive()
print(8 * {DATAGRAM} * count / (last - first))
"""


def programs(rate: float, receiver: str) -> tuple[list[str], list[str]]:
    """Return the sender's and the receiver's command."""
    burst = min(max(1, int(rate * BURST_S / 8 / PACKET)), 44)
    return (
        [sys.executable, "-c", SENDER, str(rate), str(burst), receiver],
        [sys.executable, "-c", RECEIVER],
    )


def share(rate: float, stated: float) -> str:
    """Return by how much a rate differs from the stated one."""
    return f"{100 * (rate / stated - 1):+.3f} %"


def emulated(name: str, rate: float, seconds: float, spin: int) -> str:
    """Run the emulator at this rate; return a line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.toml"
        file.write_text(SCENARIO.format(rate=name.replace("1 Gbit", "1000 Mbit")), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "lasthop.commands.cli",
            "shell",
            "--link",
            str(file),
            "--spin",
            str(spin),
        ]
        sender, receiver = programs(rate, "client")
        command += ["--server", "exec " + shlex.join(sender), "--", *receiver, "server", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    late = re.search(r"p50 (\d+) us, p99 (\d+) us, p99\.9 (\d+) us, max (\d+) us", done.stderr)
    cpu = re.search(r"cpu +([\d.]+) s", done.stderr)
    delivered = sum(int(number) for number in re.findall(r"(\d+) delivered", done.stderr))
    if late is None or cpu is None:
        raise SystemExit(done.stderr)
    quantiles = "".join(f"{int(value):>9}" for value in late.groups())
    return f"{share(float(done.stdout) / SHARE, rate):>10}{quantiles}{delivered / float(cpu[1]):>10,.0f}"


def token_bucket(rate: float, seconds: float) -> str:
    """Return the error of the rate that Linux' token bucket filter lets through, between two namespaces."""
    sender, receiver = programs(rate, "10.9.0.1")
    # Packet by packet, or in writes of up to 64 kB where single packets would keep the processor too busy.
    single = "ethtool -K far tso off gso off 2>/dev/null || ip link set far gso_max_segs 1"
    if rate > SINGLE_PACKETS_UP_TO:
        single = "true"
    peer = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    script = f"""
set -e
sleep 0.2
ip link add near type veth peer name far
ip link set far netns {peer.pid}
ip addr add 10.9.0.1/24 dev near
ip link set near up
nsenter --net=/proc/{peer.pid}/ns/net sh -c 'ip addr add 10.9.0.2/24 dev far; ip link set far up;
  tc qdisc add dev far root tbf rate {int(rate)}bit burst {max(3028, int(rate / 8 / 250))} limit 100000000;
  {single}'
nsenter --net=/proc/{peer.pid}/ns/net {shlex.join(sender)} &
{shlex.join(receiver)} 10.9.0.2 {seconds}
kill $!
"""
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False
        )
    finally:
        peer.kill()
        peer.wait()
    # The filter counts 14 bytes of Ethernet header with each packet.
    return (
        share(float(done.stdout) / SHARE * (PACKET + 14) / PACKET, rate)
        if done.stdout
        else f"({done.stderr.strip()})"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--spin", type=int, default=20)
    options = parser.parse_args()
    print(
        f"{'rate':<12}{'error':>10}{'p50 us':>9}{'p99 us':>9}{'p99.9 us':>9}{'max us':>9}{'pps/core':>10}   "
        "TBF error"
    )
    for name, rate in RATES.items():
        line = emulated(name, rate, options.seconds, options.spin)
        beside = token_bucket(rate, options.seconds) if os.geteuid() == 0 else "(needs root)"
        print(f"{name:<12}{line}   {beside}", flush=True)


if __name__ == "__main__":
    main()
