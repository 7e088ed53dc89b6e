"""Writing the course of a link in one run as a CSV file that scenarios can use."""

from pathlib import Path

from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError
from lasthop.common.files import write_text, writing
from lasthop.scenario.facts import ONLY_HOP

_DIRECTIONS = ("down", "up")


def write_course(run: ChosenRun, place: str, out: Path) -> int:
    """Write the course at `place`, such as `down` or `cable-up`, into a new file; return its row count."""
    hop, _, direction = place.rpartition("-")
    if direction not in _DIRECTIONS:
        raise InputError(
            f"--course {place} is not a direction of a hop. Give 'down' or 'up', or a hop's name and a "
            "direction, such as 'cable-down', if the scenario names its hops."
        )
    try:
        text = run.cell.course(hop or ONLY_HOP, direction, run.plan.seed, run.number)
    except ValueError as error:
        raise InputError(f"--course {place}: {error}.") from error
    if text is None:
        raise InputError(
            f"--course {place}: this link has no course. Add one to the scenario, or omit the option."
        )
    with writing(out):
        write_text(out, text)
    return text.count("\n") - 1
