"""The development install takes what the repository knows: every pinned version has its hashes."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PAIRS = {
    "tests": (text("constraints.txt"), text("requirements-dev.txt")),
    "releases": (text("constraints-release.txt"), text("requirements-release.txt")),
}
"""What is pinned, and its lock: for the tests, and what docs and releases need beside."""
each_pair = pytest.mark.parametrize(("constraints", "lock"), PAIRS.values(), ids=PAIRS)
WITHOUT_HASHES = "torch"
"""The one package that has another file on every index that builds it."""


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """The version of every package that a requirements file pins."""
    return {normal(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)}


def needs(table: dict, *keys: str) -> set[str]:
    """The names of the packages that lists of requirements in a table ask for."""
    return {normal(re.split(r"[^\w.-]", requirement)[0]) for key in keys for requirement in table[key]}


@each_pair
def test_every_pinned_version_but_torch_stands_in_the_lock_and_nothing_else(constraints, lock):
    pinned = pins(constraints)
    lines = [line for line in constraints.splitlines() if not line.startswith("#")]
    assert len(pinned) == len(lines) > 40
    pinned.pop(WITHOUT_HASHES, None)
    assert pins(lock) == pinned


@each_pair
def test_every_version_in_the_lock_has_a_hash(constraints, lock):
    requirements = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE).strip())
    assert len(requirements) == len(pins(lock))
    for requirement in requirements:
        first, *hashes = requirement.replace("\\\n", "\n").splitlines()
        assert hashes, f"{first} has no hash: run make lock"
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} *", line) for line in hashes), first


@each_pair
def test_no_address_stands_in_what_is_pinned(constraints, lock):
    assert not re.search(r"://|--(extra-)?index|--find-links|@", constraints + lock)


def test_whatever_the_project_asks_for_is_pinned():
    project = tomllib.loads(text("pyproject.toml"))
    extras = project["project"]["optional-dependencies"]
    asked = needs(project["build-system"], "requires") | needs(project["project"], "dependencies")
    assert asked | needs(extras, "dev") <= pins(PAIRS["tests"][0]).keys()
    assert needs(extras, "docs", "release") <= pins(PAIRS["releases"][0]).keys()


def test_what_runs_is_a_part_of_what_is_tested():
    runs, tests = text("requirements.txt"), text("requirements-dev.txt")
    lines = [line.strip(" \\") for line in runs.splitlines() if not line.startswith("#")]
    assert set(lines) <= {line.strip(" \\") for line in tests.splitlines()}
    project = tomllib.loads(text("pyproject.toml"))
    asked = needs(project["build-system"], "requires") | needs(project["project"], "dependencies")
    assert asked - {WITHOUT_HASHES} <= pins(runs).keys()


def test_make_install_fetches_only_torch_without_a_hash():
    command = ["make", "--dry-run", "--always-make", "install"]
    commands = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    runs, torch, project, tests, again = [line for line in commands.splitlines() if "pip install" in line]
    assert all("--require-hashes" in locked for locked in (runs, tests))
    assert (runs.split()[-1], tests.split()[-1]) == ("requirements.txt", "requirements-dev.txt")
    assert torch.endswith(f"-c constraints.txt {WITHOUT_HASHES}")
    assert all("--no-index --no-build-isolation" in line for line in (project, again))
