"""PRISM on a system that lacks modules and functions of Linux, as Windows and macOS do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prism.artifacts.store import ClipStore

ROOT = Path(__file__).resolve().parents[2]
LACKING = """
import os, signal, sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource"):
            raise ImportError(f"this system has no {name}")

sys.meta_path.insert(0, Lacking())
for name in ("fcntl", "resource"):
    sys.modules.pop(name, None)
for module, names in {
    os: ("posix_fallocate", "sched_getaffinity", "major", "minor", "geteuid", "fork"),
    signal: ("SIGALRM", "setitimer", "ITIMER_REAL", "alarm"),
}.items():
    for name in names:
        delattr(module, name)
"""
"""What Python runs before anything else, in every process: afterwards the system lacks them."""


@pytest.fixture
def elsewhere(tmp_path):
    """Runs a command on a system that lacks them."""
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / "sitecustomize.py").write_text(LACKING)
    path = os.pathsep.join([str(tmp_path / "lacking"), str(ROOT), *sys.path])

    def run(*command: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_system_of_these_tests_lacks_what_they_say(elsewhere):
    code = (
        "import os, signal\nfor name in ('fcntl', 'resource'):\n    try:\n        __import__(name)\n"
        "    except ImportError:\n        print(name)\nprint(hasattr(signal, 'SIGALRM'))"
    )
    assert elsewhere("-c", code).split() == ["fcntl", "resource", "False"]


def test_every_module_is_imported(elsewhere):
    files = sorted((ROOT / "prism").rglob("*.py"))
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    elsewhere("-c", f"import importlib\nfor name in {modules}:\n    importlib.import_module(name)")


def test_help_is_printed(elsewhere):
    assert "condense" in elsewhere("-c", "from prism.cli import main; main()", "--help")


def test_videos_are_written_and_ingested(elsewhere, tmp_path):
    small = ("--train-per-class", 1, "--test-per-class", 1, "--num-frames", 8, "--size", 32)
    main = ("-c", "from prism.cli import main; main()")
    elsewhere(*main, "motion", "-o", tmp_path / "videos", *small)
    elsewhere(*main, "ingest", tmp_path / "videos", "-o", tmp_path / "store", "--num-frames", 4, "--size", 16)
    store = ClipStore.open(tmp_path / "store")
    assert store.header.num_skipped == 0
    assert len(store.positions("train")) == len(store.classes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lacking", "store", "videos"]
