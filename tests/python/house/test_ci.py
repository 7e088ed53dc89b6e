"""The GitHub action, the GitLab job and the hook of pre-commit, run as their hosts do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml

from commands import ROOT

SCENARIO = """
name = "up"
replications = 20
tcp.congestion_control = "python:mine.Mine"

[down]
queue.limit = "50 packets"
link = { rate = "2 Mbit/s", delay = "40 ms", loss = 0.02 }

[[flow]]
kind = "bulk-tcp"
bytes = "500 kB"

[[claim]]
id = "no-worse"
text = "half of the downloads take at most 5 % longer than before"
holds = "median(elapsed_s) <= 1.05 * median(elapsed_s, baseline)"
"""
CONTROL = """
import lasthop

class Mine(lasthop.CongestionControl):
    def on_congestion(self, sign, in_use):
        self.ssthresh = max(0.7 * in_use, 2)
"""
REGRESSION = CONTROL.replace("max(0.7 * in_use, 2)", "2")
SCHEMAS = {
    "action.yml": "vendor.github-actions",
    ".github/workflows/ci.yml": "vendor.github-workflows",
    ".github/workflows/release.yml": "vendor.github-workflows",
    "examples/check/workflow.yml": "vendor.github-workflows",
    "ci/gitlab.yml": "vendor.gitlab-ci",
    "CITATION.cff": "vendor.citation-file-format",
}


VERSION = distribution("lasthop").version
LONG = pytest.mark.long(covers=("action.yml", "ci", "python/lasthop/commands/check.py"), seconds=40)


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return content


def tool(*command: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("file", SCHEMAS)
def test_files_fit_the_schemas_of_their_readers(file: str) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[file]]
    assert tool(*check, ROOT / file).stdout == "ok -- validation done\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that finds the package in this checkout, so that nothing is compiled."""
    file = tmp_path_factory.mktemp("wheel") / f"lasthop-{VERSION}-py3-none-any.whl"
    metadata = distribution("lasthop").read_text("METADATA") or ""
    others = next(path for path in sys.path if Path(path).name == "site-packages")
    content = {
        "lasthop.pth": f"{ROOT / 'python'}\n{others}\n",
        "METADATA": re.sub(r"^Requires-Dist: .*\n", "", metadata, flags=re.MULTILINE),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": "[console_scripts]\nlasthop=lasthop.commands.cli:main\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in content.items():
            archive.writestr(name if name.endswith(".pth") else f"lasthop-{VERSION}.dist-info/{name}", text)
    return file


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a control, a scenario and the baseline of the control's last version."""
    folder = tmp_path_factory.mktemp("origin")
    (folder / "up.toml").write_text(SCENARIO, encoding="utf-8")
    (folder / "mine.py").write_text(CONTROL, encoding="utf-8")
    for words in (["run", "up.toml"], ["check", "baseline", "save", "up"]):
        subprocess.run([Path(sys.executable).parent / "lasthop", *words, "--quiet"], cwd=folder, check=True)
    shutil.rmtree(folder / "results")
    return folder


@pytest.fixture
def checkout(origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with the folder `net`."""
    folder = tmp_path / "checkout"
    shutil.copytree(origin, folder / "net")
    monkeypatch.chdir(folder)
    return folder


@dataclass
class Runner:
    """Runs steps as GitHub's runner does, in an environment with nothing but the system's programs."""

    checkout: Path
    inputs: dict[str, str]
    path: list[str] = field(
        default_factory=lambda: [str(Path(sys.executable).resolve().parent), "/usr/bin", "/bin"]
    )
    outputs: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.temp = self.checkout.parent / "temp"
        self.temp.mkdir()
        self.inputs = {
            name: self.inputs.get(name, given.get("default", ""))
            for name, given in read("action.yml")["inputs"].items()
        }

    def filled(self, text: str) -> str:
        """Replace the expressions of a text by their values."""
        values = {f"inputs.{name}": value for name, value in self.inputs.items()}
        values |= {f"steps.install.outputs.{name}": value for name, value in self.outputs.items()}
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: values[match[1]], text)

    def wanted(self, step: Mapping[str, Any], *, failed: bool) -> bool:
        """Return whether a step runs."""
        condition = step.get("if", "success()")
        if condition == "inputs.engine == 'kernel'":
            return not failed and self.inputs["engine"] == "kernel"
        assert condition in ("success()", "always()")
        return condition == "always()" or not failed

    def run(self, steps: list[Mapping[str, Any]]) -> int:
        """Run the steps with commands; return the exit code of the first that fails."""
        code = 0
        for step in steps:
            if "run" in step and self.wanted(step, failed=code != 0):
                code = code or self._run(step)
        return code

    def _run(self, step: Mapping[str, Any]) -> int:
        files = {name: self.temp / name for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.touch()
        assert step["shell"] == "bash"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.filled(step["run"])],
            cwd=self.checkout / self.filled(step.get("working-directory", ".")),
            env={
                **{name: str(file) for name, file in files.items()},
                "GITHUB_WORKSPACE": str(self.checkout),
                "RUNNER_TEMP": str(self.temp),
                "HOME": str(self.temp),
                "PATH": ":".join(self.path),
                "PIP_NO_INDEX": "1",
                **{name: self.filled(value) for name, value in step.get("env", {}).items()},
            },
            capture_output=True,
            text=True,
            check=False,
        )
        self.said += [done.stdout, done.stderr]
        self.path = [*files["GITHUB_PATH"].read_text().split(), *self.path[-3:]]
        self.outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        return done.returncode


def kept(runner: Runner) -> Iterator[str]:
    """Yield the names of the files that the last step of the action keeps."""
    last = read("action.yml")["runs"]["steps"][-1]
    assert last["uses"].startswith("actions/upload-artifact@")
    assert last["if"] == "always()"
    for pattern in runner.filled(last["with"]["path"]).split():
        yield from sorted(file.name for file in runner.checkout.glob(pattern))


@LONG
def test_the_action_is_green_without_a_change_and_red_with_a_regression(wheel: Path, checkout: Path) -> None:
    folder = checkout / "net"
    inputs = {"files": "up.toml", "package": f"{wheel.parent}/lasthop-*.whl", "working-directory": "net"}
    runner = Runner(checkout, {**inputs, "python": sys.executable})
    steps = read("action.yml")["runs"]["steps"]
    assert runner.run(steps) == 0, runner.said
    assert re.fullmatch(rf"lasthop version {re.escape(VERSION)} \(commit [\w-]+\)", runner.outputs["version"])
    assert "upheld      no-worse: half of the downloads" in "".join(runner.said)
    assert "\n::" not in "".join(runner.said)
    assert list(kept(runner)) == ["verdicts.json", "verdicts.xml", "report.html", "summary.csv"]

    (folder / "mine.py").write_text(REGRESSION, encoding="utf-8")
    shutil.rmtree(runner.temp)
    runner = Runner(checkout, {**inputs, "python": sys.executable})
    assert runner.run(steps) == 4, runner.said
    line = SCENARIO.splitlines().index('id = "no-worse"') + 1
    place = f"::error file=net/up.toml,line={line},title=claim no-worse%3A not upheld::half of the downloads"
    assert f"\n{place}" in "".join(runner.said)
    summary = (runner.temp / "GITHUB_STEP_SUMMARY").read_text()
    assert summary.startswith(
        "    up.toml: 20 replications, seed 1, model (virtual time), baseline baselines/up\n"
    )
    assert "\n    not upheld  no-worse: " in summary
    assert "::error" not in summary
    assert list(kept(runner)) == ["verdicts.json", "verdicts.xml", "report.html", "summary.csv"]
    assert json.loads((folder / "verdicts.json").read_text())[0]["claims"][0]["verdict"] == "not upheld"
    assert "not upheld" in (folder / "results/up/report.html").read_text(encoding="utf-8")


@LONG
def test_the_action_takes_more_options_and_fails_if_a_file_is_missing(wheel: Path, checkout: Path) -> None:
    inputs = {
        "package": str(wheel),
        "python": sys.executable,
        "options": "--replications 3 --baseline net/baselines",
    }
    runner = Runner(checkout, {**inputs, "files": "net/up.toml"})
    steps = read("action.yml")["runs"]["steps"]
    assert runner.run(steps) == 5, runner.said
    assert "net/up.toml: 3 replications, seed 1, model" in "".join(runner.said)
    runner.inputs["files"] = "none.toml"
    assert runner.run(steps[-2:]) == 2
    assert "none.toml" in runner.said[-1]


@LONG
def test_the_job_for_gitlab_is_green_without_a_change_and_red_with_a_regression(
    wheel: Path, checkout: Path, tmp_path: Path
) -> None:
    folder = checkout / "net"
    job = read("ci/gitlab.yml")[".lasthop-check"]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "image"], check=True)
    env = {
        **job["variables"],
        "LASTHOP_FILES": "up.toml",
        "LASTHOP_PACKAGE": str(wheel),
        "CI_PROJECT_DIR": str(folder),
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}/image/bin:/usr/bin:/bin",
        "PIP_NO_INDEX": "1",
    }
    # GitLab's runner joins the lines of a script, each of which must succeed.
    os.chdir(folder)
    script = "set -eo pipefail\n" + "\n".join(job["script"])
    assert (done := tool("bash", "-c", script, env=env)).returncode == 0, done
    (folder / "mine.py").write_text(REGRESSION, encoding="utf-8")
    assert (done := tool("bash", "-c", script, env=env)).returncode == 4, done
    assert "not upheld  no-worse: " in done.stdout
    suite = ElementTree.parse(folder / job["artifacts"]["reports"]["junit"]).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert all(list(folder.glob(pattern)) for pattern in job["artifacts"]["paths"])


def test_inputs_and_options_of_the_integrations_are_those_of_the_command() -> None:
    from lasthop.commands.check import check_command

    known = {
        name for option in check_command.params for name in option.opts if isinstance(option, click.Option)
    }
    texts = [step.get("run", "") for step in read("action.yml")["runs"]["steps"]]
    texts += read("ci/gitlab.yml")[".lasthop-check"]["script"]
    used = {
        word
        for text in texts
        for line in re.findall(r"check run (.*?)(?:\||$)", text, re.DOTALL)
        for word in line.split()
    }
    options = {word for word in used if word.startswith("--")}
    assert {"--engine", "--report", "--junit", "--json", "--format"} <= options <= known
    assert {"--until-decided"} <= known


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_actionlint_accepts_the_action_and_the_workflows(tmp_path: Path) -> None:
    action = read("action.yml")
    given = {
        name: {
            "type": "string",
            **{key: value for key, value in facts.items() if key in ("required", "default")},
        }
        for name, facts in action["inputs"].items()
    }
    # actionlint reads workflows: the steps of the action as one, and one that uses the action.
    as_workflow = {
        "on": {"workflow_call": {"inputs": given}},
        "jobs": {"check": {"runs-on": "ubuntu-latest", "steps": action["runs"]["steps"]}},
    }
    user = {
        "on": "push",
        "jobs": {
            "check": {"runs-on": "ubuntu-latest", "steps": [{"uses": "./", "with": {"files": "up.toml"}}]}
        },
    }
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    shutil.copy(ROOT / "action.yml", tmp_path)
    for file in [*ROOT.glob(".github/workflows/*.yml")]:
        shutil.copy(file, workflows)
    (workflows / "steps.yml").write_text(yaml.safe_dump(as_workflow), encoding="utf-8")
    (workflows / "user.yml").write_text(yaml.safe_dump(user), encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    os.chdir(tmp_path)
    assert (done := tool("actionlint")).returncode == 0, done.stdout


def test_systems_that_cannot_be_checked_fail_in_ci_only(tmp_path: Path) -> None:
    for name, line in (("rustc", f"echo {tmp_path}"), ("rustup", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for ci, code in (({}, 0), ({"CI": "true"}, 1)):
        done = tool(ROOT / "scripts/check-systems", env={**env, **ci})
        assert (done.returncode, done.stdout) == (code, "")
        assert "not checked, because 'rustup target add aarch64-apple-darwin' did not work" in done.stderr


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "HOME": str(folder.parent),
        "PRE_COMMIT_HOME": str(folder.parent / "pre-commit"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **{
            f"GIT_{who}_{what}": "test@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    return tool("git", "-C", folder, *words, env=env)


def test_the_hook_refuses_a_commit_with_a_wrong_scenario_or_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks, folder = tmp_path / "hooks", tmp_path / "checkout"
    for repository in (hooks, folder):
        git(tmp_path, "init", "--quiet", str(repository))
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    git(hooks, "add", ".")
    assert git(hooks, "commit", "--quiet", "--message", "Hooks").returncode == 0
    revision = git(hooks, "rev-parse", "HEAD").stdout.strip()
    config = {"repos": [{"repo": str(hooks), "rev": revision, "hooks": [{"id": "lasthop-validate"}]}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    monkeypatch.chdir(folder)
    installed = tool(sys.executable, "-m", "pre_commit", "install", env=dict(os.environ))
    assert installed.returncode == 0, installed

    def commit(**files: str) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            file = folder / "scenarios" / f"{name.replace('_', '.')}.toml"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        git(folder, "add", ".")
        return git(folder, "commit", "--message", "Change")

    plain = 'extends = "gprs"\n'
    (folder / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    claim = '[[claim]]\nid = "c"\ntext = "t"\nholds = "elapsed_s < 5"\n'
    assert (done := commit(up=plain, up_claims=claim)).returncode == 0, done
    assert "check lasthop scenarios" in done.stderr
    assert "Passed" in done.stderr
    done = commit(up_claims=claim.replace("elapsed_s < 5", "elapsed_s <"))
    assert done.returncode == 1
    assert "scenarios/up.claims.toml:2: claim c: holds: " in done.stderr
    done = commit(up_claims=claim, up='extends = "gprss"\n')
    assert done.returncode == 1
    assert "scenarios/up.toml:1: `extends`: " in done.stderr
    assert commit(up=plain.replace("gprs", "lte")).returncode == 0
