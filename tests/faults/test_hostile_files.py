"""Bad files: each named one gives its sentence, whatever else comes in gives a PrismError, and nothing is run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import write_store
from corpus import KINDS, SENTENCES, SPOILED, Kind
from fuzz import TARGETS, Target, mutated
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import either

from prism.artifacts.info import describe
from prism.errors import PrismError
from prism.reports.text import printable

NAMED = [(kind, name) for kind, files in SPOILED.items() for name in files]


def test_at_least_sixty_bad_files_are_named_and_each_has_its_sentence():
    assert len(NAMED) >= 60
    assert {kind: files.keys() for kind, files in SPOILED.items()} == {
        kind: sentences.keys() for kind, sentences in SENTENCES.items()
    }


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good file of every kind, in a folder of its own."""
    made = {}
    for name, kind in KINDS.items():
        made[name] = tmp_path_factory.mktemp(name) / kind.name
        kind.make(made[name])
    return made


def spoiled(kind: Kind, name: str, good: Path, folder: Path) -> Path:
    """A copy of a good file, with one thing wrong."""
    import shutil

    path = folder / kind.name
    shutil.copytree(good, path) if good.is_dir() else shutil.copy(good, path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_file_of_every_kind_is_read(kind, good):
    KINDS[kind].read(good[kind])


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_a_bad_file_gives_its_sentence(kind, name, good, tmp_path):
    path = spoiled(KINDS[kind], name, good[kind], tmp_path)
    SPOILED[kind][name](path)
    with pytest.raises(PrismError) as caught:
        KINDS[kind].read(path)
    sentence = str(caught.value)
    start, cut, _ = SENTENCES[kind][name].replace("{path}", str(path)).partition("…")
    assert sentence.startswith(start) if cut else sentence == start
    assert len(sentence) < 1000
    # The terminal shows it on one line of characters that do nothing.
    assert printable(sentence).isprintable()


# Fuzzing: a short form here, a long one with `make fuzz`.


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return {name: make(tmp_path_factory.mktemp("fuzz")) for name, make in TARGETS.items()}


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=either(250, 5000))
@given(st.data())
def test_whatever_is_read_only_a_prism_error_comes_out(name, targets, data):
    target = targets[name]
    content = data.draw(st.one_of(st.binary(max_size=200), mutated(target.seed)))
    target.try_(content)


# Code


WATCHED = """
import io, sys
sys.path[:0] = {paths!r}
import corpus, exhibits, videos
from prism.ingestion.options import IngestConfig
from prism.recipes import read_recipe
from prism.errors import PrismError
from prism.reports import page as _report; from prism.artifacts import info as _info
from prism.reports.page import report
from prism.artifacts.info import describe
from pathlib import Path
good = {good!r}
bad = {bad!r}
# Once without looking, so that every library has imported what it imports late.
for kind, path in good.items():
    corpus.KINDS[kind].read(Path(path))
FORBIDDEN = ("pickle.find_class", "exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork",
             "subprocess.Popen", "socket.", "ctypes.dlopen", "marshal.loads", "import")
seen = []
def watch(event, arguments):
    if not watching or (event == "compile" and arguments[0] == b"_getframe()"):
        # That is what Cython compiles, in PyAV, for the traceback of an error, whatever was read.
        return
    if event.startswith(FORBIDDEN):
        seen.append((event, str(arguments)[:200]))
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append((event, str(arguments)[:200]))
watching = False
sys.addaudithook(watch)
watching = True
for kind, path in good.items():
    corpus.KINDS[kind].read(Path(path))
for kind, path in bad:
    try:
        corpus.KINDS[kind].read(Path(path))
    except PrismError:
        pass
watching = False
assert not seen, seen
watching = True
{provoke}
watching = False
print(len(seen), "seen,", len(bad), "bad files read")
"""


def test_nothing_that_is_read_runs_code_starts_a_process_opens_a_socket_or_writes(good, tmp_path):
    bad = []
    for at, (kind, name) in enumerate(NAMED):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = spoiled(KINDS[kind], name, good[kind], folder)
        SPOILED[kind][name](path)
        bad.append((kind, str(path)))
    here = Path(__file__).parent
    # The hook sees what it is there for: this is what a file that runs code would do.
    provoke = "import pickle\ntry:\n    pickle.loads(b'\\x80\\x04cos\\nsystem\\n.')\nexcept Exception:\n    pass"
    script = WATCHED.format(
        paths=[str(here), str(here.parent), str(here.parents[1])],
        good={kind: str(path) for kind, path in good.items()},
        bad=bad,
        provoke=provoke,
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{len(NAMED)} bad files read" in done.stdout
    assert not done.stdout.startswith("0 seen")


def test_describing_a_hostile_store_names_its_classes_without_running_them(tmp_path):
    evil = ["<script>alert(1)</script>", "\x1b[2J\x1b]0;owned\x07"]
    facts = describe(write_store(tmp_path / "store", classes=sorted(evil), num_frames=2, size=4).path)
    assert facts["classes"] == sorted(evil)
    assert printable(str(facts)).isprintable()
