"""The examples of docs/extending.md are short, run as they stand, and keep the promises of their kinds."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from videos import write_numbered

import prism
from prism import testing

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
FAST = {"iterations": 3, "width": 2, "batch_real": 2, "epochs": 1, "seeds": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """All that the examples define, after they have run in their order, each verb as fast as it goes."""
    folder, before = tmp_path_factory.mktemp("extending"), Path.cwd()
    (folder / "runs").mkdir()
    for name in ("clap_1", "clap_2", "wave_1", "wave_2"):
        write_numbered(folder / "videos" / f"{name}.mp4", 12)
    store = testing.tiny_store(folder / "store")
    # A module that can be imported, because a part is found again by its name.
    module = sys.modules["extending"] = types.ModuleType("extending")
    names = vars(module)
    names.update(prism=Hurried(), store=store, condensed=prism.select(store), folder=folder)
    try:
        os.chdir(folder)
        for block in BLOCKS:
            exec(block, names)
    finally:
        os.chdir(before)
    return names


class Hurried:
    """The package, whose verbs take the fast options that they have."""

    CondensedSet, Clips = prism.CondensedSet, prism.Clips

    def __getattr__(self, name):
        verb = getattr(prism, name)
        options = {
            "condense": ("iterations", "width", "batch_real", "device"),
            "evaluate": ("epochs", "seeds", "device"),
            "select": ("width", "epochs", "device"),
            "ingest": (),
        }[name]
        more = {"num_frames": 4, "size": 16} if name == "ingest" else {key: FAST[key] for key in options}
        return lambda *given, **named: verb(*given, **named, **more)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_has_at_most_twenty_lines(number):
    lines = [line for line in BLOCKS[number].splitlines() if line.strip()]
    said = [line for line in lines if not re.match(r"(from|import) ", line)]
    assert len(said) <= 20


def test_every_verb_that_the_examples_call_has_written_its_output(examples):
    written = {
        *re.findall(r'"(runs/own-[\w.-]+)"', TEXT),
        *(f"runs/own-means{seed}.safetensors" for seed in (0, 1)),
    }
    assert len(written) == 7
    assert all((examples["folder"] / path).exists() for path in written)


def test_the_examples_keep_the_promises_of_their_kinds(examples):
    testing.check_method(examples["Lit"](), examples["store"])
    testing.check_objective(examples["Recognised"](), examples["store"])


def test_the_example_files_run_as_they_stand():
    names = ("own_rule", "own_network", "own_method")
    # In one process, since the import of PyTorch takes longer than they do.
    run = (
        "import runpy, sys; [runpy.run_module(name, run_name='__main__', alter_sys=True) for name in sys.argv[1:]]"
    )
    command = [sys.executable, "-c", run, *(f"examples.{name}" for name in names)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.count("CondensedSet("), done.stdout.count("top-1")) == (2, 1)
