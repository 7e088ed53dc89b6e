"""What a release states about itself: versions, codemeta.json, CITATION.cff and the paper."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
import yaml

from commands import ROOT

TERMS = set((ROOT / "tests/python/house/codemeta-3.0.txt").read_text(encoding="utf-8").split())
"""The terms of https://w3id.org/codemeta/3.0: those of schema.org that it uses, and its own."""
FILES = {"readme", "buildInstructions", "continuousIntegration", "softwareHelp", "releaseNotes"}
"""Terms whose values are files of the repository."""

CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CODEMETA = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")

VERSIONS = {
    "CITATION.cff": r"^version: (\S+)$",
    "codemeta.json": r'"version": "(\S+)"',
    "docs/guides/ci.md": r"\bv(\d+\.\d+\.\d+)\b",
    "docs/internals/cite.md": r"Version (\d+\.\d+\.\d+)",
    "docs/start/install.md": r"lasthop-(\d+\.\d+\.\d+)-",
    "action.yml": r"lasthop==(\d+\.\d+\.\d+)",
    "ci/gitlab.yml": r"lasthop==(\d+\.\d+\.\d+)",
    "examples/check/workflow.yml": r"lasthop@v(\S+)",
    "CHANGELOG.md": r"^## \[(\S+)\] - ",
}
"""Documents that state the version, and how."""

FIGURES = {
    "at most 0.5 % for 756 of 862 flows": "within 0.5 % for 756 of 862 flows",
    "less than 0.01 % in the median": "less than 0.01 % apart in the median",
    "In 640 random scenarios": "ACK by ACK, 640 random scenarios",
    "198 of 220 numbers are within the bounds": "198 of 220 numbers within the bounds",
    "within 8 % of a published formula": "within 8 % in the median of 18 points",
    "in 91 to 100 % of the flows": "in 91 to 100 % of the flows without random numbers",
    "contain the rate in 98 % and the delay in 92 %": "contain the rate in 98 %, the delay in 92 %",
    "On 200 simulated lines": "200 simulated lines",
    "Of the 208 listed statements": "123 of 208 statements upheld, 25 not",
    "123 are upheld and 25 are not": "123 of 208 statements upheld, 25 not",
    "Of the 156 statements of a study": "of 156 statements 67 upheld, 80 not",
    "67 are upheld and 80 are not": "of 156 statements 67 upheld, 80 not",
    "Eight published studies": "Eight published studies",
}
"""A figure in the paper, and its words in docs/validation/index.md."""


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("file", VERSIONS)
def test_documents_state_the_version(file: str) -> None:
    stated = re.findall(VERSIONS[file], (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert stated
    assert set(stated[:1] if file == "CHANGELOG.md" else stated) == {CARGO["version"]}


def test_codemeta_has_terms_of_codemeta_3_and_names_files_that_exist() -> None:
    assert CODEMETA["@context"] == "https://w3id.org/codemeta/3.0"
    assert CODEMETA["type"] == "SoftwareSourceCode"
    people = [{name for name in author if name != "type"} for author in CODEMETA["author"]]
    assert {*CODEMETA, *set().union(*people)} - {"@context"} <= TERMS
    assert set(CODEMETA) >= FILES
    assert all((ROOT / CODEMETA[term]).is_file() for term in FILES)


def test_codemeta_citation_and_package_agree() -> None:
    assert CODEMETA["name"] == PROJECT["name"] == CITATION["title"].partition(":")[0]
    assert CODEMETA["description"] == PROJECT["description"]
    licenses = [address.rpartition("/")[2] for address in CODEMETA["license"]]
    assert (
        licenses == CITATION["license"] == PROJECT["license"].split(" OR ") == CARGO["license"].split(" OR ")
    )
    authors = [author["name"] for author in CODEMETA["author"]]
    assert authors == [author["name"] for author in CITATION["authors"]]
    assert authors == [author["name"] for author in PROJECT["authors"]]
    assert CODEMETA["keywords"] == CITATION["keywords"]
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} or newer" == CODEMETA["runtimePlatform"]


def test_the_paper_has_the_format_of_the_journal() -> None:
    _, front, body = PAPER.split("---\n", 2)
    head = yaml.safe_load(front)
    assert head["title"] == CITATION["title"]
    assert [author["name"] for author in head["authors"]] == [
        author["name"] for author in CITATION["authors"]
    ]
    numbers = {place["index"] for place in head["affiliations"]}
    assert {author["affiliation"] for author in head["authors"]} <= numbers
    assert {"tags", "date"} < set(head)
    headings = re.findall(r"^# (.*)$", body, re.MULTILINE)
    wanted = [
        "Summary",
        "Statement of need",
        "State of the field",
        "Functionality",
        "Validation",
        "References",
    ]
    assert headings == wanted
    assert 750 <= len(body.split()) <= 1000, "two pages"
    cited = set(re.findall(r"@([\w-]+)", body))
    listed = re.findall(
        r"^@\w+\{([\w-]+),$", (ROOT / "paper" / head["bibliography"]).read_text(), re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    assert cited == set(listed)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_in_the_paper_is_that_of_the_documentation(figure: str) -> None:
    assert figure in one_line(PAPER)
    assert FIGURES[figure] in one_line((ROOT / "docs/validation/index.md").read_text(encoding="utf-8"))


def test_all_figures_of_the_validation_are_checked() -> None:
    validation = one_line(PAPER.partition("# Validation")[2].partition("# References")[0])
    for figure in FIGURES:
        validation = validation.replace(figure, "")
    left = re.findall(r"(?<![\w-])\d[\d.]*\b", validation)
    # Names, the number of flows and points of the formula, and the confidence of the intervals.
    assert left == ["6.12", "1", "32", "18", "90"]
