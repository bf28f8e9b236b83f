"""The README and the pages keep their word: commands parse, programs run, and files, links and names are there."""

import ast
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from ten_lines import run_ten_lines
from test_architecture import layer

import prism
from prism.cli import app
from prism.condensation.condense import condense

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}


def blocks(language: str, page: str = "README.md") -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page].read_text(encoding="utf-8"), re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The arguments of every `prism` command in a shell text, whose numbers may be computed from $S."""
    lines = re.sub(r"\$\(\(.*?\)\)|\$S\b", "0", text.replace("\\\n", " ")).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("prism ")]


COMMANDS = {page: [command for block in blocks("sh", page) for command in commands(block)] for page in PAGES}


@pytest.mark.parametrize(
    ("page", "command"),
    [(page, command) for page in PAGES for command in COMMANDS[page]],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_every_command_of_a_page_is_understood(page, command):
    app.parse_args(command, exit_on_error=False, print_error=False)


@pytest.mark.parametrize(
    "target", re.findall(r"^make (\w+)", "\n".join(blocks("sh") + blocks("sh", "index.md")), re.MULTILINE)
)
def test_every_make_target_of_a_page_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_own_model_of_the_pages_trains_on_a_condensed_set(make_store, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store = make_store(size=64)
    condense(store, output="runs/prism.safetensors", iterations=2, width=4, batch_real=2, device="cpu")
    shutil.copytree(store.path, "runs/store")
    (program,) = blocks("python", "training.md")
    program = program.replace("range(500)", "range(2)").replace("width=16", "width=4")
    seen: dict[str, object] = {}
    exec(compile(program, "training.md", "exec"), seen)
    assert seen["loss"] > 0  # type: ignore[operator]
    assert re.fullmatch(r"\d+\.\d %\n", capsys.readouterr().out)


def test_the_readmes_verbs_run_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_ten_lines(PAGES["README.md"], monkeypatch.setattr)
    assert sorted(os.listdir()) == ["condensed.gif", "store", "videos"]


def test_the_first_page_shows_the_readmes_verbs():
    assert blocks("python", "index.md") == blocks("python")[:1]


def test_the_demos_commands_are_understood(monkeypatch):
    monkeypatch.chdir(ROOT)
    script = (ROOT / "examples" / "demo.sh").read_text(encoding="utf-8").replace("\\\n", " ")
    steps = re.findall(r"^step (.*)$", script, re.MULTILINE)
    assert len(steps) == 17
    for step in steps:
        arguments = shlex.split(step.replace("$out", "out").replace("$recipe", "demo"))
        app.parse_args(arguments, exit_on_error=False, print_error=False)


def table(head: str) -> list[tuple[str, str]]:
    """The rows of the README's table of two columns with this head."""
    rows = README.partition(f"{head}\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    return [(cells[1].strip(), cells[2].strip()) for cells in (row.split("|") for row in rows)]


TASKS = table("| to read or change | open |")
PLACES = [(task, path) for task, files in TASKS for path in re.findall(r"\]\((.*?)\)", files)]
ROOMS = [room for rooms, _ in table("| room | holds |") for room in re.findall(r"`(\w+)`", rooms)]
EMPTY_WORDS = {"the", "a", "of", "in", "an", "is", "to", "what", "how", "and", "their"}


def subjects(text: str) -> set[str]:
    """The beginnings of the words that say what a text is about: `trained` and `train` have the same one."""
    return {word[:5] for word in re.findall(r"[a-z]+", text.lower()) if word not in EMPTY_WORDS}


def first_screen(path: Path) -> str:
    """What a file says of itself: a module's docstring, or the first paragraph of another file."""
    text = path.read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text)) or "" if path.suffix == ".py" else text.partition("\n\n")[0]


NEWCOMERS_TASKS = [
    *("decode a frame", "the loop", "the insertion rule", "the objective", "the file format", "the networks"),
    *("what is trained in an evaluation", "what is trainable in a synthetic video"),
    *("the table of the paper", "the options"),
]


@pytest.mark.parametrize("task", NEWCOMERS_TASKS)
def test_a_newcomer_finds_every_task_on_the_map(task):
    assert any(task in row for row, _ in TASKS)


@pytest.mark.parametrize(("task", "path"), PLACES)
def test_the_first_screen_of_a_file_on_the_map_says_that_it_is_the_place(task, path):
    assert subjects(task) & subjects(first_screen(ROOT / path))


def test_every_room_is_on_the_map_once():
    inside = (ROOT / "prism").iterdir()
    found = {path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(ROOMS) == sorted(found - {"__init__", "__main__"})


def test_a_room_stands_below_those_that_import_from_it():
    levels = [layer(room) for room in ROOMS]
    assert levels == sorted(levels, reverse=True)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    for link in re.findall(r"\]\((?!https?:)(.*?)\)", PAGES[page].read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = PAGES[page].parent / name if name else PAGES[page]
        assert target.exists(), f"{page} links to {link}"
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{page} links to {link}"


FILES = re.compile(r"\.(py|json|jsonl|csv|txt|u8|md|toml|svg|png|sh|html|safetensors)$")
# formats.md names keys of JSON texts in the form of code.
PAGES_OF_CODE = [page for page in PAGES if page != "formats.md"]


def is_in_the_code(name: str) -> bool:
    """Whether a dotted name is a module, or its last word stands in a module that an earlier word names."""
    *places, last = name.split(".")
    files = [path for room in ("prism", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    modules = [path for path in files if (path.parent.name if path.stem == "__init__" else path.stem) in places]
    is_module = any((ROOT / name.replace(".", "/")).with_suffix(suffix).exists() for suffix in ("", ".py"))
    return is_module or any(re.search(rf"\b{last}\b", path.read_text(encoding="utf-8")) for path in modules)


@pytest.mark.parametrize("page", PAGES_OF_CODE)
def test_every_module_and_function_that_a_page_names_exists(page):
    for name in re.findall(r"`(?:python -m )?([a-z]\w*(?:\.\w+)+)[`( ]", PAGES[page].read_text(encoding="utf-8")):
        is_foreign = name.split(".")[0] in ("concurrent", "safetensors", "torch")
        assert is_in_the_code(name) or is_foreign or FILES.search(name), f"{page} names {name}"


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_code_that_a_page_names_exists(page):
    for name in re.findall(r"`(?:\w+ )?(\w+(?:/\w+)+\.(?:py|sh))[`:]", PAGES[page].read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), f"{page} names {name}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])
def test_every_page_stands_in_the_navigation_of_the_site(page):
    assert f": {page}\n" in (ROOT / "website" / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_public_name_and_every_base_of_a_part_stands_in_the_reference():
    told = re.findall(r"^::: (\S+)$", PAGES["api.md"].read_text(encoding="utf-8"), re.MULTILINE)
    bases = re.findall(r"\| `(prism\.[\w.]+)` \|", PAGES["extending.md"].read_text(encoding="utf-8"))
    assert len(bases) == 4
    assert {f"prism.{name}" for name in prism.__all__} | set(bases) <= set(told)
