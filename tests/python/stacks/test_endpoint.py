"""One end of a transfer, as the interop runner starts it."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import lasthop.stacks

ENDPOINT = Path(lasthop.stacks.__file__).parent / "endpoint.py"
CONTENT = b"content"
FILES = {"file1": (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())}


def end(
    tmp_path: Path, role: str, line: str, case: str = "transfer", duration: float | None = None
) -> "tuple[subprocess.CompletedProcess[str], Path]":
    """Run a command line as an end; return the result and the folder of its logs."""
    for name in ("www", "certs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "there").write_text(name, encoding="ascii")
    spec = {
        "name": "mine",
        "host": "mine",
        "testcase": {"client": case, "server": "transfer"},
        role: line,
        "env": {"MINE": "1"},
        "start": 0.1,
        "duration": duration,
        "files": FILES,
        "www": str(tmp_path / "www"),
        "certs": str(tmp_path / "certs"),
        "logs": str(tmp_path / "logs"),
        "verify": True,
    }
    done = subprocess.run(
        [sys.executable, "-I", "-S", ENDPOINT, role, json.dumps(spec)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, tmp_path / "logs" / role


def test_a_client_has_the_folders_and_the_environment_of_the_runner(tmp_path: Path) -> None:
    line = (
        "/setup.sh && /wait-for-it.sh sim:57832 && printf content > /downloads/file1; cat /certs/there; "
        "ls /www; touch $QLOGDIR/x.sqlog $SSLKEYLOGFILE; pwd; "
        'echo "$ROLE $TESTCASE $REQUESTS $MINE" > /logs/seen'
    )
    done, logs = end(tmp_path, "client", line, "http3")
    facts = json.loads(done.stdout)["mine"]
    assert (done.returncode, facts["exit_code"], facts["matches"]) == (0, 0, 1)
    assert facts["received_bytes"] == len(CONTENT)
    assert done.stderr == f"certs{tmp_path}\n", "what it prints is no result, and it does not see /www"
    assert (logs / "seen").read_text("ascii") == "client http3 https://mine:443/file1 1\n"
    assert (logs / "qlog" / "x.sqlog").exists()
    assert (logs / "keys.log").exists()
    assert not any(Path(place).exists() for place in ("/downloads", "/certs", "/setup.sh"))


@pytest.mark.parametrize(
    ("line", "code", "matches"),
    [
        ("printf contenx > /downloads/file1", 1, 0),
        ("true", 1, 0),
        ("exit 127", 127, 0),
        ("printf content > /downloads/file1; exit 3", 3, 1),
        ("kill -9 $$", 137, 0),
    ],
)
def test_the_exit_code_tells_how_a_transfer_ended(line: str, code: int, matches: int, tmp_path: Path) -> None:
    done, _ = end(tmp_path, "client", line)
    facts = json.loads(done.stdout)["mine"]
    assert (done.returncode, facts["matches"]) == (code, matches)
    assert ("missing or differ" in done.stderr) == (code == 1)


def test_a_client_with_a_duration_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    line = "printf con > /downloads/file1; (sleep 60; echo late) & sleep 60"
    done, _ = end(tmp_path, "client", line, duration=0.5)
    facts = json.loads(done.stdout)["mine"]
    # The pipe of standard error would stay open as long as any of its processes.
    assert (done.returncode, facts["exit_code"], facts["received_bytes"]) == (0, 0, 3)
    assert 0.5 <= facts["program_s"] < 5
    assert "matches" not in facts
    assert done.stderr == ""


def test_a_client_that_fails_before_its_time_says_so(tmp_path: Path) -> None:
    done, _ = end(tmp_path, "client", "exit 3", duration=30)
    assert done.returncode == 3


def test_a_server_sees_the_files(tmp_path: Path) -> None:
    done, _ = end(tmp_path, "server", 'cat /www/there; ls /downloads; echo " $ROLE $TESTCASE"; exit 5')
    assert (done.stdout, done.returncode) == ("www server transfer\n", 5)
