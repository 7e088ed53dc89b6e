"""The course of a link in one run, as the CSV file that a scenario can name."""

from pathlib import Path

from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError
from lasthop.common.files import write_text, writing
from lasthop.scenario.facts import ONLY_HOP

_DIRECTIONS = ("down", "up")


def write_course(run: ChosenRun, place: str, out: Path) -> int:
    """Write the course at `place`, such as `down` or `cable-up`, into the new file; return its rows."""
    hop, _, direction = place.rpartition("-")
    if direction not in _DIRECTIONS:
        raise InputError(
            f"--course {place}: write 'down' or 'up', behind the name of a hop and a hyphen if hops have "
            "names: 'cable-down', say."
        )
    try:
        text = run.cell.course(hop or ONLY_HOP, direction, run.plan.seed, run.number)
    except ValueError as error:
        raise InputError(f"--course {place}: {error}.") from error
    if text is None:
        raise InputError(f"--course {place}: that link has no course; add one, or leave the option out.")
    with writing(out):
        write_text(out, text)
    return text.count("\n") - 1
