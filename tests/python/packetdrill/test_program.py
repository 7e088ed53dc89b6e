"""packetdrill itself: found, or built from the user's source."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lasthop.common.errors import InputError
from lasthop.packetdrill.program import VARIABLE, find_program

# What a build of ours changes in packetdrill's source, in a program that prints it.
_RUN = """#include <stdio.h>
#include "run.h"
const int MAX_SPIN_USECS = 20;
int write_symbols(int), run_command_event(void);
static int sleeps;
static int run_cleanup_command(void) { return STATUS_ERR; }
int usleep(unsigned time) { sleeps += time; return 0; }
int main(void) {
	const int TARGET_JIFFY_TICKS = 10;
	int state = run_command_event();
	if (run_cleanup_command() == STATUS_ERR)
		printf("%d %d %d %d", MAX_SPIN_USECS, TARGET_JIFFY_TICKS, write_symbols(1), sleeps);
	return 0;
}
"""
_RUN_H = """#define STATUS_ERR 1
#define run_lock(state) (void)state
#define run_unlock(state) (void)state
int usleep(unsigned);
"""
_RUN_COMMAND = """#include "run.h"
#define wait_for_event(state) (void)state
int run_command_event(void) {
	int state = 0;
	wait_for_event(state);

	return state;
}
"""
_CODE = """#include <assert.h>
struct _tcp_info { int a, b; };
int write_symbols(int len) {
	assert(len >= sizeof(struct _tcp_info));

	write_symbols:
	return len;
}
"""
_MAKE = "packetdrill: run.c code.c\n\t$(CC) $(CFLAGS) -o packetdrill run.c run_command.c code.c\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    source = tmp_path / "checkout" / "gtests" / "net" / "packetdrill"
    source.mkdir(parents=True)
    files = {"run.c": _RUN, "run.h": _RUN_H, "run_command.c": _RUN_COMMAND, "code.c": _CODE}
    for name, text in (files | {"Makefile.Linux": _MAKE}).items():
        (source / name).write_text(text, encoding="utf-8")
    return tmp_path / "checkout"


def test_a_checkout_is_built_once_without_waits_and_left_as_it_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(checkout.rglob("*"))
    program = find_program(checkout)
    built = program.stat().st_mtime_ns
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "0 1 1 2"
    monkeypatch.setenv(VARIABLE, str(checkout / "gtests" / "net" / "packetdrill"))
    assert find_program(None) == program
    assert program.stat().st_mtime_ns == built
    assert sorted(checkout.rglob("*")) == before


def test_a_source_that_differs_is_named(checkout: Path) -> None:
    (checkout / "gtests" / "net" / "packetdrill" / "run.c").write_text("int main(void) { return 0; }")
    with pytest.raises(InputError, match=r"cannot build .* run\.c matches .*MAX_SPIN_USECS"):
        find_program(checkout)


def test_a_build_that_fails_quotes_the_compiler(checkout: Path) -> None:
    (checkout / "gtests" / "net" / "packetdrill" / "code.c").write_text(_CODE + "nonsense")
    with pytest.raises(InputError, match=r"(?s)packetdrill cannot be built .*nonsense"):
        find_program(checkout)


def test_without_packetdrill_the_way_to_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"git clone .* --packetdrill PATH"):
        find_program(None)
    with pytest.raises(InputError, match=r"is not packetdrill's source"):
        find_program(tmp_path)
    (tmp_path / "text").touch()
    with pytest.raises(InputError, match=r"neither an executable"):
        find_program(tmp_path / "text")
