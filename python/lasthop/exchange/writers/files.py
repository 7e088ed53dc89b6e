"""Writing the files of an export."""

from __future__ import annotations

import re
from pathlib import Path

from lasthop.campaign.plan import ChosenRun
from lasthop.common.errors import InputError
from lasthop.common.files import write_text, writing
from lasthop.exchange.writers import containerlab, mahimahi, tc
from lasthop.exchange.writers.hop import Hop, hop_of

STYLES = ("tc", "mahimahi", "containerlab")


def write_line(run: ChosenRun, style: str, out: Path | None) -> tuple[list[Path], list[str]]:
    """Write the hop of a run for a live tool; return the files, and what they do not express."""
    hop = hop_of(run, style)
    name = run.plan.study.name
    files = _files(hop, style, name, out)
    for file in (out or _default(style, name), *files):
        if file.exists():
            raise InputError(f"{file} already exists; choose another name with --out.")
    with writing(next(iter(files))):
        for file, text in files.items():
            file.parent.mkdir(exist_ok=True)
            write_text(file, text)
            if text.startswith("#!"):
                file.chmod(0o755)
    return list(files), hop.missing()


def _default(style: str, name: str) -> Path:
    return Path(
        {"tc": f"{name}-tc.sh", "mahimahi": f"{name}-mahimahi", "containerlab": f"{name}.clab.yml"}[style]
    )


def _files(hop: Hop, style: str, name: str, out: Path | None) -> dict[Path, str]:
    path = out or _default(style, name)
    if style == "tc":
        return {path: tc.write(hop)}
    if style == "mahimahi":
        return {path / file: text for file, text in mahimahi.write(hop).items()}
    # containerlab takes the name for names of containers.
    return {path: containerlab.write(hop, re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-") or "lasthop")}
