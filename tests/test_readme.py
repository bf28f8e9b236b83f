"""What the README shows is what works: its commands parse, its programs run."""

import os
import re
import shlex
from pathlib import Path

import pytest

from prism.cli import app
from prism.condensation.loop import condense
from prism.ingestion.motion import write_motion

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The arguments of every `prism` command in a shell text."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("prism ")]


README_COMMANDS = [command for block in blocks("sh") for command in commands(block)]


def test_the_readme_shows_commands():
    shown = {command[0] for command in README_COMMANDS}
    assert shown == {"ingest", "condense", "evaluate", "select", "report", "reproduce"}


@pytest.mark.parametrize("command", README_COMMANDS, ids=" ".join)
def test_every_command_of_the_readme_is_understood(command):
    app.parse_args(command, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE))
def test_every_make_target_of_the_readme_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_readmes_own_model_trains_on_a_condensed_set(make_store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = make_store(size=64)
    condense(store, output="runs/prism.safetensors", iterations=2, width=4, batch_real=2, device="cpu")
    program = blocks("python")[0].replace("range(100)", "range(2)").replace("size=64", "size=64, width=4")
    seen: dict[str, object] = {}
    exec(compile(program, "README.md", "exec"), seen)
    assert seen["loss"] > 0  # type: ignore[operator]


def test_the_readmes_verbs_run_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_motion("videos", train_per_class=3, test_per_class=1, num_frames=40, progress=False)
    program = blocks("python")[1].replace("iterations=500", "iterations=2, width=4, batch_real=2")
    exec(
        compile(
            program.replace("(condensed, store)", "(condensed, store, epochs=1, width=4)"), "README.md", "exec"
        ),
        {},
    )
    assert os.listdir("runs") == ["store"]


def test_the_demos_commands_are_understood(monkeypatch):
    monkeypatch.chdir(ROOT)
    script = (ROOT / "examples" / "demo.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = re.findall(r"^step (.*)$", script, re.MULTILINE)
    assert len(steps) == 12
    for step in steps:
        arguments = shlex.split(step.replace("$out", "out").replace("$recipe", "demo"))
        app.parse_args(arguments, exit_on_error=False, print_error=False)
