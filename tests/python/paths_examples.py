"""Scenarios with several hops."""

from pathlib import Path

DATA = Path(__file__).resolve().parent / "paths"
HOME, PARKING_LOT = DATA / "home.toml", DATA / "parking-lot.toml"


def backhaul(subscribers: int) -> str:
    """Return a scenario with this many subscribers behind a shared hop."""
    shared = '[hop.backhaul]\ndown = { link = { rate = "100 Mbit/s", delay = "3 ms" } }'
    numbers = [f"{number:02}" for number in range(1, subscribers + 1)]
    hops = [
        f'[hop.line-{number}]\nbehind = "backhaul"\n'
        'down = { link = { rate = "50 Mbit/s", delay = "5 ms" } }\n'
        f'[host.home-{number}]\nbehind = "line-{number}"'
        for number in numbers
    ]
    flows = [
        f'[[flow]]\nkind = "bulk-tcp"\nname = "load-{number}"\nhost = "home-{number}"\nbytes = "100 kB"'
        for number in numbers
    ]
    return "\n".join([shared, *hops, *flows]) + "\n"
