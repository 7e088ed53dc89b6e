"""Certificates that follow from a seed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lasthop.stacks.certificate import identity


def test_the_same_seed_gives_the_same_certificate() -> None:
    first = identity(1, ["mine"])
    assert identity(1, ["mine"]) == first
    assert identity(2, ["mine"]).key != first.key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_accepts_chain_name_and_key(tmp_path: Path) -> None:
    made = identity(7, ["mine"])
    for name, text in (("chain.pem", made.chain), ("key.pem", made.key), ("ca.pem", made.authority)):
        (tmp_path / name).write_bytes(text)

    def openssl(*arguments: str) -> str:
        done = subprocess.run(
            ["openssl", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else f"failed: {done.stderr}"

    verify = ("verify", "-CAfile", "ca.pem", "-verify_hostname")
    assert openssl(*verify, "mine", "chain.pem") == "chain.pem: OK\n"
    assert openssl(*verify, "other", "chain.pem").startswith("failed")
    public = openssl("pkey", "-in", "key.pem", "-pubout")
    assert "PUBLIC KEY" in public
    assert openssl("x509", "-in", "chain.pem", "-noout", "-pubkey") == public
