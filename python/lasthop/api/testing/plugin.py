"""The hooks of the plugin. pytest loads this module in any project; the others only if they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lasthop.api.testing.fixture import LasthopFixture


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting of the engine; pytest's option -o overrides it for one call."""
    parser.addini("lasthop_engine", "engine of the fixture 'lasthop' and of *.claims.toml", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for --strict-markers."""
    config.addinivalue_line(
        "markers",
        "lasthop(**options): default options of a test's runs or of a claim's check, such as engine='kernel'",
    )


@pytest.fixture
def lasthop(request: pytest.FixtureRequest, tmp_path: Path) -> LasthopFixture:
    """Run scenarios, or programs behind a link, and assert claims about the results."""
    from lasthop.api.testing.fixture import LasthopFixture
    from lasthop.api.testing.options import options_of

    return LasthopFixture(options_of(request.node), tmp_path)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the claims of NAME.claims.toml, and those of a scenario file that the command line names."""
    if file_path.suffix != ".toml":
        return None
    if not file_path.name.endswith(".claims.toml") and not parent.session.isinitpath(file_path):
        return None
    from lasthop.api.testing.items import ClaimsFile

    collected: ClaimsFile = ClaimsFile.from_parent(parent, path=file_path)
    return collected
