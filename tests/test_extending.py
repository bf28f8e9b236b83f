"""The examples of docs/extending.md are short, run as they stand, and keep the promises of their kinds."""

import inspect
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import prism
from prism import testing
from prism.condensation.videos import Videos

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
FAST = {"iterations": 3, "width": 2, "batch_real": 2, "epochs": 1, "seeds": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """All that the examples define, after they have run in their order, each verb as fast as it goes."""
    folder, before = tmp_path_factory.mktemp("extending"), Path.cwd()
    (folder / "runs").mkdir()
    store = testing.tiny_store(folder / "store")
    # A module that can be imported, because a part is found again by its name.
    module = sys.modules["extending"] = types.ModuleType("extending")
    names = vars(module)
    names.update(prism=Hurried(), store=store, condensed=prism.select(store), folder=folder, small={})
    try:
        os.chdir(folder)
        for block in BLOCKS:
            exec(block, names)
    finally:
        os.chdir(before)
    return names


class Hurried:
    """The package, whose verbs take the fast options that they have."""

    def __getattr__(self, name):
        verb = getattr(prism, name)
        options = {
            "condense": ("iterations", "width", "batch_real", "device"),
            "evaluate": ("epochs", "seeds", "device"),
        }[name]
        return lambda *given, **named: verb(*given, **named | {key: FAST[key] for key in options})


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_has_at_most_25_lines(number):
    lines = [line for line in BLOCKS[number].splitlines() if line.strip()]
    said = [line for line in lines if not re.match(r"(from|import) ", line)]
    assert len(said) <= 25


def test_every_verb_that_the_examples_call_has_written_its_output(examples):
    written = {*re.findall(r'"(runs/own-[\w.-]+)"', TEXT)}
    assert len(written) == 3
    assert all((examples["folder"] / path).exists() for path in written)


def test_the_example_files_run_as_they_stand():
    names = ("own_rule", "own_network", "own_method", "own_objective")
    # In one process, since the import of PyTorch takes longer than they do.
    run = "import runpy, sys; [runpy.run_module(it, run_name='__main__', alter_sys=True) for it in sys.argv[1:]]"
    command = [sys.executable, "-c", run, *(f"examples.{name}" for name in names)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.count("CondensedSet("), done.stdout.count("top-1")) == (3, 1)


def test_the_methods_of_videos_have_the_parameters_that_the_table_names():
    rows = TEXT.partition("| name | meaning |")[2].partition("\n\n")[0].splitlines()
    named = [call for row in rows[2:] for call in re.findall(r"`(\w+)\(([\w, ]*)\)`", row.split("|")[1])]
    assert len(named) == 5
    for name, parameters in named:
        assert ", ".join(inspect.signature(getattr(Videos, name)).parameters) == f"self, {parameters}".rstrip(", ")
