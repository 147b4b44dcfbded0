"""The examples of docs/ci.md: their YAML is sound, and what they compare with callgrove works on runs that differ by
noise, and by a change."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import callgrove
from callgrove.examples import example
from tests.requirements import ROOT, need_module
from tests.timing import HANG_SEC

PAGE = ROOT / "docs" / "ci.md"
N_RUNS = 6


def blocks() -> list[str]:
    """The texts of the ```yaml blocks."""
    parts = PAGE.read_text("utf-8").split("```yaml\n")[1:]
    return [part.partition("```")[0] for part in parts]


def parsed() -> tuple[dict[str, Any], dict[str, Any]]:
    yaml = need_module("yaml")
    github, gitlab = (yaml.safe_load(text) for text in blocks())
    return github, gitlab


def compare_line(text: str) -> str:
    """The one command that compares, as a reader would copy it."""
    (line,) = [line.strip(" -") for line in text.splitlines() if line.strip(" -").startswith("callgrove ")]
    return line


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """runs/before.K.d and runs/after.K.d; the version after has four ranks' worth of work on each of two."""
    folder = tmp_path_factory.mktemp("ci")
    (folder / "runs").mkdir()
    for k in range(N_RUNS):
        callgrove.write(example(seed=k), folder / "runs" / f"before.{k}.d")
        callgrove.write(example(seed=k + N_RUNS), folder / "runs" / f"after.{k}.d")
    return folder


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a step as CI does: by a shell that ends at the first error."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": programs, "GITHUB_STEP_SUMMARY": "summary.md"}
    return subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_SEC
    )


def test_the_workflow_for_github_is_sound() -> None:
    github, _ = parsed()
    assert set(github) == {"name", True, "permissions", "jobs"}, "YAML takes `on` for true"
    steps = github["jobs"]["gate"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert compare_line(steps[3]["run"]).startswith("callgrove diff --left runs/before.*.d")
    assert steps[4]["if"] == "always()"


def test_the_job_for_gitlab_is_sound() -> None:
    _, gitlab = parsed()
    job = gitlab["performance"]
    assert all(isinstance(line, str) for line in job["script"])
    assert job["allow_failure"] == {"exit_codes": [4]}
    assert job["artifacts"]["reports"]["junit"] == job["artifacts"]["paths"][0] == "gate.xml"


def test_the_github_step_writes_a_summary(runs: Path) -> None:
    text = blocks()[0]
    done = run(runs, compare_line(text))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "6 and 6 repetitions" in done.stderr
    (tell,) = [line.strip() for line in text.splitlines() if "GITHUB_STEP_SUMMARY" in line]
    assert run(runs, tell).returncode == 0
    assert (runs / "summary.md").read_text("utf-8").startswith("## CPUTIME (sec): undecided\n")


def test_the_gitlab_step_warns_and_fails(runs: Path) -> None:
    line = compare_line(blocks()[1])
    assert run(runs, line).returncode == 4
    suite = ElementTree.parse(runs / "gate.xml").getroot()
    assert int(suite.get("skipped", "")) > 0
    for k in range(N_RUNS):  # a version that does twice the work
        slow = example(seed=k + N_RUNS) + example(seed=k + 2 * N_RUNS)
        callgrove.write(replace(slow, path=""), runs / "runs" / f"after.{k}.d", overwrite=True)
    assert run(runs, line).returncode == 5
    assert int(ElementTree.parse(runs / "gate.xml").getroot().get("failures", "")) > 0
