"""The command line: one sentence for every mistake, the names that scripts rely on, help that helps."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from exhibits import Exhibit
from settings import command, printed

from prism.artifacts.condensed import CondensedSet
from prism.cli import app
from prism.config import described
from prism.errors import AGAIN
from prism.machine.progress import note
from prism.recipes import SECTIONS, shipped_recipes
from prism.selection.select import select

COMMANDS = ["motion", "ingest", "condense", "select", "evaluate", "report", "export", "info"]
TINY_CONDENSE = ["--iterations", "2", "--width", "2", "--batch-real", "2", "--device", "cpu"]
TINY_EVALUATE = ["--epochs", "1", "--width", "2", "--seeds", "2", "--device", "cpu"]


class Prism:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """The exit code, and what went to stdout and stderr."""
        code = command(*arguments)
        return code, *self.capsys.readouterr()

    def succeeds(self, *arguments: object) -> str:
        code, out, err = self(*arguments)
        assert code == 0, err
        return out

    def refuses(self, *arguments: object) -> str:
        """The one line with which the arguments are refused."""
        code, _, err = self(*arguments)
        assert code != 0
        assert err.count("\n") == 1, err
        assert err.startswith("prism: ")
        assert "Traceback" not in err
        return err


@pytest.fixture
def prism(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Prism:
    monkeypatch.setenv("COLUMNS", "200")
    return Prism(capsys)


@pytest.fixture
def chosen(store, tmp_path) -> Path:
    select(store, output=tmp_path / "chosen.safetensors")
    return tmp_path / "chosen.safetensors"


def test_info_says_what_a_file_is(prism, store, chosen, tmp_path):
    said = prism.succeeds("info", chosen)
    assert "condensed set by random: 2 classes, 2 videos" in said
    assert '"method": "random"' in said.splitlines()[1]
    assert "clip store: 2 classes, 8 train" in prism.succeeds("info", store.path)
    prism.succeeds("evaluate", chosen, "--data", store.path, "-o", tmp_path / "r.json", *TINY_EVALUATE)
    assert "result: random: top-1" in prism.succeeds("info", tmp_path / "r.json")


def test_recipes_lists_every_recipe_with_what_it_is_for(prism):
    lines = prism.succeeds("recipes").splitlines()
    assert [line.split()[0] for line in lines] == list(shipped_recipes())
    assert "random                         Random selection: VPC real clips of each class" in "\n".join(lines)


@pytest.fixture
def recipe(tmp_path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "recipe.toml").write_text(text)
        return tmp_path / "recipe.toml"

    return write


def test_a_recipe_fills_what_the_command_line_leaves_open_and_no_more(prism, store, tmp_path, recipe):
    path = recipe('[condense]\nvpc = 2\nseed = 7\nstorage = "float16"\ninit = "real"\n[evaluate]\nepochs = 9\n')
    prism.succeeds("condense", store.path, "-o", tmp_path / "set", "--recipe", path, "--seed", 3, *TINY_CONDENSE)
    made = CondensedSet.load(tmp_path / "set").source["config"]
    assert (made["vpc"], made["seed"], made["storage"], made["init"]) == (2, 3, "float16", "real")
    assert made["relative_lr"] == 0.2


@pytest.fixture
def own_rules(tmp_path, monkeypatch) -> Path:
    """A working directory with a module, which is not importable yet."""
    folder = tmp_path / "work"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "choosing.py").write_text(
        "from dataclasses import dataclass\n"
        "from prism.selection.methods import Selection\n\n\n"
        "@dataclass(frozen=True)\n"
        "class From(Selection):\n"
        "    start: int = 0\n\n"
        "    def choose(self, embeddings, num, generator):\n"
        "        return list(range(self.start, self.start + num))\n"
    )
    monkeypatch.chdir(folder)
    # Only folders of its own: neither this one nor the tests' may be found by chance.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", ".", str(folder))])
    return folder


OWN = ["--width", 2, "--epochs", 0, "--device", "cpu"]


@pytest.mark.parametrize("how", ["option", "recipe"])
def test_a_custom_part_is_found_in_the_working_directory_by_name(prism, store, tmp_path, own_rules, recipe, how):
    name = "mine.choosing:From(start=2)"
    given = ["--method", name] if how == "option" else ["--recipe", recipe(f'[select]\nmethod = "{name}"\n')]
    prism.succeeds("select", store.path, "-o", tmp_path / "set", *given, *OWN)
    made = CondensedSet.load(tmp_path / "set").source
    assert made["method"] == made["config"]["method"] == name
    assert made["clips"] == [store.sources[2].path, store.sources[6].path]


MISTAKES = {
    "vpc 0": ("condense {store} -o {at}/out --vpc 0", "condense.vpc = 0, but it must be at least 1"),
    "vpc too large": ("condense {store} -o {at}/out --vpc 5", "class 'class0' has only 4 for training"),
    "unknown option": ("condense {store} -o {at}/out --lr-img 1", "--lr-img"),
    "misspelt option": ("condense {store} -o {at}/out --iteration 3", "--iteration. Did you mean --iterations?"),
    "option of other verbs": ("condense {store} -o {at}/out --epochs 3", "option of prism select, evaluate, not"),
    "unknown command": ("condens {store}", 'Did you mean "condense"'),
    "no output": ("condense {store}", "parameter --output is missing."),
    "unknown recipe": ("condense {store} -o {at}/out --recipe fast", "prism recipes lists them."),
    "folder as recipe": ("condense {store} -o {at}/out --recipe {at}", "cannot be read: is a directory."),
    "set as recipe": ("condense {store} -o {at}/out --recipe {set}", "cannot be read: it is not UTF-8 text."),
    "misspelt method": ("select {store} -o {at}/out --method herdng", "Did you mean 'herding'?"),
    "values": ("condense {store} -o {at}/out --seed 0 1 2", "'1 2' belongs to no option: most take one value."),
    "output in /proc": ("select {store} -o /proc/out", "has no room for a file beside it."),
    "missing store": ("condense {at}/missing -o {at}/out", "does not exist"),
    "empty folder as store": ("condense {at}/empty -o {at}/out", "not a clip store"),
    "output below a file": ("condense {store} -o {at}/file/out", "File exists. Choose an output in a folder"),
    "folder as output": ("select {store} -o {at}/empty", "is a folder"),
    "store as set": ("evaluate {store} --data {store}", "is a clip store, not a condensed set. prism condense"),
    "set as result": ("report {set} -o {at}/out", "is a condensed set, not a result. prism evaluate"),
    "truncated set": ("evaluate {at}/cut.safetensors --data {store}", "truncated"),
    "no data": ("evaluate {set}", "--data"),
    "neither set nor train": ("evaluate --data {store}", "either a condensed set or a store to --train on"),
    "both set and train": ("evaluate {set} --train {store} --data {store}", "not both"),
    "no hidden size": ("evaluate {set} --data {store} --hidden 9", "but convnet3d does not have that option"),
    "info on a folder": ("info {at}/empty", "is a folder, not a condensed set, a result or a clip store"),
    "info on text": ("info {at}/file", "is a file of another kind, not a condensed set"),
}
"""Every mistake: what was typed, and what the one line has to say."""


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_gets_one_line_saying_what_is_wrong_and_leaves_nothing(prism, store, chosen, tmp_path, name):
    line, says = MISTAKES[name]
    (tmp_path / "file").write_text("precious")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.safetensors").write_bytes(chosen.read_bytes()[:-50])
    before = sorted(tmp_path.rglob("*"))
    places = {"store": store.path, "set": chosen, "at": tmp_path}
    assert says in prism.refuses(*[word.format(**places) for word in line.split()])
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "precious"


def test_a_wrong_option_ends_with_code_2(prism, store, tmp_path):
    assert prism("select", store.path, "-o", tmp_path / "set", "--method", "herdng")[0] == 2


def test_every_verb_makes_what_the_next_one_reads(prism, tmp_path):
    videos, store, made = (tmp_path / name for name in ("videos", "store", "set"))
    prism.succeeds("motion", "-o", videos, "--kind", "glyphs", "--train-per-class", 1, "--test-per-class", 1)
    prism.succeeds("ingest", videos, "-o", store, "--num-frames", 4, "--size", 48, "--val-fraction", 0)
    prism.succeeds("select", store, "-o", made)
    prism.succeeds("export", made, "-o", tmp_path / "sheet.gif", "--to", "gif")
    assert "--lossless" in prism.succeeds("export", made, "-o", tmp_path / "folder")
    assert "--lossless" not in prism.succeeds("export", made, "-o", tmp_path / "exact", "--lossless")
    scored = ["--data", store, "-o", tmp_path / "r.json", "--width", 4, "--epochs", 1, "--seeds", 1]
    said = prism.succeeds("evaluate", made, *scored)
    assert re.match(r"random: top-1 [\d.]+ ± – \(1\), top-5 [\d.]+ ± – \(1\), on 10 test clips\n", said)
    assert "page.html" in prism.succeeds("report", tmp_path / "r.json", "-o", tmp_path / "page.html")
    assert "exists already" in prism.refuses("report", tmp_path / "r.json", "-o", tmp_path / "page.html")
    assert re.search(r"table1 .*Rows: random,\S*prism\S*,whole\.\n", prism.succeeds("reproduce", "--list"))
    for given in (["table1"], ["--data", store, "table1"]):
        assert "needs the name of a table, and then --data" in prism.refuses("reproduce", *given)
    said = prism.succeeds("reproduce", "table1", "--data", store, "--vpc", 1, "--scale", "small", "--dry-run")
    assert "prism condense" in said


def test_a_reader_that_has_seen_enough_is_no_error(store):
    program = f"{sys.executable} -c 'from prism.cli import main; main()' info {store.path}"
    done = subprocess.run(f"{program} | head -c 1", shell=True, capture_output=True, text=True)
    assert done.stderr == ""


def test_names_cannot_move_the_cursor_of_a_terminal(capsys):
    from prism.cli import commands

    commands.say("a\x1b[2Jb\nc")
    note("a\x1b[2Jb")
    assert capsys.readouterr() == ("a\\x1b[2Jb\nc\n", "a\\x1b[2Jb\n")


def test_a_terminal_that_lacks_a_character_is_shown_its_number(store, chosen, tmp_path):
    program = [sys.executable, "-c", "from prism.cli import main; main()"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    evaluate = ["evaluate", chosen, "--data", store.path, "-o", tmp_path / "r.json", *TINY_EVALUATE]
    done = subprocess.run([*program, *evaluate], capture_output=True, text=True, env=ascii_only)
    assert done.returncode == 0, done.stderr
    assert re.match(r"random: top-1 [\d.]+ \\xb1 [\d.]+ \(2\)", done.stdout)
    done = subprocess.run([*program, "info", "±"], capture_output=True, text=True, env=ascii_only)
    assert done.returncode == 1
    assert re.fullmatch(r"prism: .*\\xb1.*\n", done.stderr)


def test_sigterm_ends_a_verb_without_a_journal_as_ctrl_c_does(tmp_path):
    code = (
        "import os, signal, prism.exports.export as export\n"
        "export.canonical_json = lambda *given, **named: os.kill(os.getpid(), signal.SIGTERM)\n"
        "from prism.cli import main; main()"
    )
    condensed = Exhibit.build(tmp_path / "made", ["left", "right"]).condensed("set")
    command = ["export", str(condensed), "-o", str(tmp_path / "out" / "export"), "--to", "tensors"]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1:] == [f"prism: interrupted. {AGAIN}"]
    # It has taken its half of a folder with it.
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_dir()]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_shows_defaults_and_an_example_that_parses(prism, command):
    text = prism.succeeds(command, "--help")
    assert "[default: " in text or command == "info"
    example = re.search(r"Example: prism (.*?)(?: ╭| Usage)", re.sub(r"\s+", " ", text))
    assert example
    words = [word for word in shlex.split(example[1]) if "─" not in word]
    parsed, _, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert parsed.__name__ == command
    # Every option says what it is for: more than its default and its choices.
    for line in text.splitlines():
        option = re.match(r"│ \*?\s*(--[\w-]+)(.*)│", line)
        if option:
            assert re.sub(r"--[\w-]+|-\w\b|[A-Z]+|\[.*", "", option[2]).strip(), line


def panels(text: str) -> dict[str, str]:
    """The boxes of a help page by their titles, in their order."""
    found = re.findall(r"╭─ (.*?) ─+╮\n(.*?)╰", text, flags=re.DOTALL)
    return {title: re.sub(r"[│\s]+", " ", body) for title, body in found}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_options_of_a_verb_stand_in_groups_with_their_ranges(prism, section):
    shown, known = panels(prism.succeeds(section, "--help")), described(SECTIONS[section])
    groups = list(dict.fromkeys(field.group for field in known.values()))
    assert [title for title in shown if title != "Arguments"] == ["Parameters", *groups, "Where it runs"]
    assert re.match(r" (\* )?--(output|data) ", shown["Parameters"])
    for name, field in known.items():
        option = f"--{name.replace('_', '-')} "
        assert option in shown[field.group]
        if field.range and not field.choices:
            default = field.default if field.default != "" else '""'
            assert f"[default: {default}; {field.range}]" in shown[field.group].partition(option)[2]


def test_a_command_offers_only_the_options_of_the_run_that_its_verb_uses(prism):
    offered = {
        command: set(re.findall(r"--(?!no-)[a-z-]+", panels(prism.succeeds(command, "--help"))["Where it runs"]))
        for command in [*SECTIONS, "report", "reproduce"]
    }
    cluster = {"--executor", "--progress"}
    everywhere = {"--overwrite", "--resume", "--device", *cluster}
    assert offered == {
        "motion": {"--overwrite", "--progress"},
        "ingest": {"--overwrite", "--workers", *cluster},
        "condense": {"--checkpoint-seconds", *everywhere},
        "select": {"--overwrite", "--device", "--progress"},
        "evaluate": {"--workers", *everywhere},
        "report": {"--overwrite"},
        "export": {"--overwrite", "--progress"},
        "reproduce": {"--device", *cluster},
    }


@pytest.mark.parametrize(
    "words",
    [
        "ingest x -o y --workers",
        "condense x -o y --vpc",
        "evaluate --data x --seeds",
        "reproduce table1 --data x --vpc",
    ],
)
@pytest.mark.parametrize("value", ["1.5", "2.0"])
def test_no_fraction_is_rounded_to_a_whole_number(prism, words, value):
    said = prism.refuses(*words.split(), value)
    assert said == f"prism: {words.split()[-1]} = {value}, but it must be a whole number.\n"


@pytest.mark.parametrize("arguments", [["--help"], ["condense", "--help"], ["--version"]])
def test_help_imports_neither_torch_nor_numpy_nor_a_video_library(arguments):
    program = (
        "import sys\nfrom prism.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print('IMPORTED', *sorted({'torch', 'numpy', 'av', 'safetensors', 'matplotlib'} & set(sys.modules)))\n"
    )
    assert printed(program).splitlines()[-1].split() == ["IMPORTED"]


def test_the_package_is_the_command_too():
    ran = subprocess.run([sys.executable, "-m", "prism", "info", "nowhere"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "prism: 'nowhere' does not exist.\n"
