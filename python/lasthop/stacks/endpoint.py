"""Runs one end of a transfer as the QUIC interop runner does: its files, its environment, its test case.

The engines start this file as a program in each replication, so it imports little:

    endpoint.py server SPECIFICATION
    endpoint.py client SPECIFICATION [SPECIFICATION...]

An end sees this machine's files and, at the paths of the runner, /www, /downloads, /certs and /logs. They
exist only in its own mount namespace. A client prints a line of JSON for each transfer: how it ended, and
what has arrived.
"""

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from typing import Any

Spec = dict[str, Any]
"""A transfer, as `transfers.py` describes it."""
_NEWNS, _NEWUSER = 0x20000, 0x10000000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_PLACES = ("/srv", "/mnt", "/media", "/opt", "/home")
"""Folders where a new root can be made: one of them exists and has no mounts below it that anyone needs."""
_IMAGE = ("/setup.sh", "/wait-for-it.sh")
"""Scripts of the runner's images: they set up routes and wait for the simulator. Nothing to do here."""
_DIFFERS = 1
"""Exit code if files are missing or differ, although the client did not fail."""

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    encoded = (own if own is None else own.encode() for own in (source, target, kind))
    if _libc.mount(*encoded, ctypes.c_ulong(flags), None) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {source}", target)


def _unshare() -> None:
    """Move this process to its own mount namespace; an ordinary user needs a user namespace for that."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEWNS if user == 0 else _NEWNS | _NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "cannot create a mount namespace")
    if user != 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def enter_root(folders: dict[str, str | None]) -> None:
    """Give this process its own root: the machine's, and these folders, each an existing one or empty."""
    folder = os.getcwd()
    _unshare()
    _mount("none", "/", None, _REC | _PRIVATE)
    root = next(place for place in _PLACES if os.path.isdir(place) and not os.path.islink(place))
    hidden = os.open(root, os.O_PATH)
    entries = [(entry.name, entry.is_symlink(), entry.is_dir()) for entry in os.scandir("/")]
    _mount("tmpfs", root, "tmpfs", 0)
    for name, is_link, is_folder in entries:
        source, target = f"/{name}", f"{root}/{name}"
        if is_link:
            os.symlink(os.readlink(source), target)
            continue
        if is_folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT))
        if source == root:
            _mount(f"/proc/self/fd/{hidden}", target, None, _BIND)
        else:
            _mount(source, target, None, _BIND | _REC)
    os.close(hidden)
    for name, content in folders.items():
        target = root + name
        os.makedirs(target, exist_ok=True)
        if content is None:
            _mount("tmpfs", target, "tmpfs", 0)
        else:
            _mount(content, target, None, _BIND)
    for name in _IMAGE:
        if not os.path.exists(root + name):
            with open(root + name, "w") as script:
                script.write("#!/bin/sh\n")
            os.chmod(root + name, 0o755)
    os.chroot(root)
    os.chdir(folder)


def _environment(role: str, spec: Spec) -> dict[str, str]:
    """Return the environment of an endpoint's script."""
    return {
        **os.environ,
        "ROLE": role,
        "TESTCASE": spec["testcase"][role],
        f"TESTCASE_{role.upper()}": spec["testcase"][role],
        "SERVER_PARAMS": "",
        "CLIENT_PARAMS": "",
        "REQUESTS": " ".join(f"https://{spec['host']}:443/{name}" for name in spec["files"]),
        "LASTHOP_BYTES": str(sum(size for size, _ in spec["files"].values())),
        "QLOGDIR": "/logs/qlog/",
        "SSLKEYLOGFILE": "/logs/keys.log",
        **spec["env"],
    }


def _enter(role: str, spec: Spec) -> None:
    logs = spec["logs"] and f"{spec['logs']}/{role}"
    if logs:
        os.makedirs(logs, exist_ok=True)
    enter_root({"/www": spec["www"], "/downloads": None, "/certs": spec["certs"], "/logs": logs})
    os.makedirs("/logs/qlog", exist_ok=True)


def _execute(role: str, spec: Spec) -> None:
    os.execve("/bin/sh", ["sh", "-c", spec[role]], _environment(role, spec))


def _serve(spec: Spec) -> None:
    _enter("server", spec)
    _execute("server", spec)


def _wait(child: int, seconds: float | None) -> int:
    """Wait for a client, and return its exit code; stop its processes after this time, which counts as 0."""
    stopped = []

    def stop(*_: object) -> None:
        stopped.append(child)
        os.killpg(child, signal.SIGKILL)

    if seconds is not None:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.setitimer(signal.ITIMER_REAL, 0)
    if stopped:
        return 0
    return code if code >= 0 else 128 - code


def _fetch(spec: Spec, begin: float) -> int:
    """Run a client at its start; print how it ended. Returns its exit code, or that of a wrong file."""
    # The server's files would let a client cheat, if only by mistake.
    _enter("client", {**spec, "www": None})
    # Rounded up: in a guest, no time passes for a process that never waits.
    time.sleep(max(0.0, begin + spec["start"] - time.monotonic()))
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        # Standard output is for the results.
        os.dup2(2, 1)
        os.setsid()
        _execute("client", spec)
    code = _wait(child, spec["duration"])
    elapsed = time.monotonic() - start
    facts: Spec = {"exit_code": code, "program_s": elapsed}
    wrong = 0
    if spec["verify"]:
        received = [_received(f"/downloads/{name}") for name in spec["files"]]
        facts["received_bytes"] = sum(size for size, _ in received)
        if spec["duration"] is None:
            expected = [tuple(own) for own in spec["files"].values()]
            wrong = sum(own != other for own, other in zip(received, expected, strict=True))
            facts["matches"] = int(wrong == 0)
    os.write(1, (json.dumps({spec["name"]: facts}) + "\n").encode())
    if code == 0 and wrong:
        os.write(2, f"{spec['name']}: {wrong} of {len(spec['files'])} files are missing or differ\n".encode())
        return _DIFFERS
    return code


def _received(path: str) -> tuple[int, str]:
    """Return size and SHA-256 of a file; nothing if it is missing."""
    digest, size = hashlib.sha256(), 0
    try:
        with open(path, "rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
                size += len(part)
    except OSError:
        return 0, ""
    return size, digest.hexdigest()


def _fetch_all(specs: list[Spec]) -> int:
    """Run the clients of a host; return the first exit code that is not 0."""
    begin = time.monotonic()
    children = []
    for spec in specs:
        child = os.fork()
        if child == 0:
            code = 126
            try:
                code = _fetch(spec, begin)
            except OSError as error:
                os.write(2, f"{spec['name']}: {error}\n".encode())
            os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def main(role: str, *specs: str) -> int:
    read = [json.loads(spec) for spec in specs]
    if role == "server":
        _serve(read[0])
    return _fetch_all(read)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
