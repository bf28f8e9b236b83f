"""Bad sets, stores and results: named ones give their sentence, all others a PrismError, and nothing is run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
from fuzz import TARGETS, Target, make_result, make_set, make_store, mutated
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import either, printed, refusal_of

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.errors import ArtifactError
from prism.reports.text import printable

Spoil = Callable[[Path], object]
MAKE = {"set": make_set, "store": make_store, "result": make_result}
READ = {"set": CondensedSet.load, "store": ClipStore.open, "result": Result.load}
NESTED = b"[" * 100_000


def data(content: bytes, name: str = "") -> Spoil:
    return lambda path: (path / name).write_bytes(content)


def cut(name: str = "") -> Spoil:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-10])


def flip_bit(name: str = "") -> Spoil:
    def spoil(path: Path) -> None:
        content = bytearray((path / name).read_bytes())
        content[-3] ^= 1
        (path / name).write_bytes(content)

    return spoil


def edit(name: str = "", **changes: object) -> Spoil:
    """Replace values of a JSON file."""
    return lambda path: (path / name).write_text(json.dumps(json.loads((path / name).read_text()) | changes))


def metadata(text: str | None = None, **changes: object) -> Spoil:
    """Replace the PRISM metadata of a set, or some of its values."""

    def spoil(path: Path) -> None:
        with safetensors.safe_open(path, framework="pt") as file:
            content = json.loads(file.metadata()["prism"]) | changes
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        path.write_bytes(safetensors.torch.save(tensors, {"prism": text or json.dumps(content)}))

    return spoil


SPOILED: dict[tuple[str, str], tuple[Spoil, str]] = {
    ("set", "empty"): (data(b""), "'{path}' is a file of another kind, not a condensed set."),
    ("set", "a pickle"): (data(b"\x80\x04cos\nsystem\n."), "'{path}' is "),
    ("set", "truncated"): (cut(), "'{path}' is "),
    ("set", "one bit flipped"): (flip_bit(), "'{path}' "),
    ("set", "a header of 2^63 bytes"): (data((2**63).to_bytes(8, "little") + b"{}"), "'{path}' is "),
    ("set", "metadata nested deeply"): (metadata(NESTED.decode()), "'{path}' "),
    ("set", "of a newer version"): (metadata(version=99), "'{path}' "),
    ("set", "of an unknown encoding"): (metadata(encoding="pickle"), "'{path}' "),
    ("set", "with an edited class"): (metadata(classes=["<script>alert(1)</script>", "right"]), "'{path}' "),
    ("store", "without frames"): (
        lambda path: (path / "frames.u8").unlink(),
        "store '{path}' has lost its ",
    ),
    ("store", "with truncated frames"): (cut("frames.u8"), "store '{path}' has a changed frames.u8"),
    ("store", "with an edited index"): (flip_bit("clips.csv"), "store '{path}' has a changed clips.csv"),
    ("store", "with a header that is a list"): (
        data(b"[]", "store.json"),
        "'{path}/store.json' is not ",
    ),
    ("store", "with a header that is nested"): (
        data(NESTED, "store.json"),
        "store '{path}' has an unreadable ",
    ),
    ("store", "with a length of 10^9"): (
        edit("store.json", num_frames=10**9),
        "store '{path}' has a store.json ",
    ),
    ("store", "of a newer version"): (edit("store.json", version=99), "'{path}/store.json' has format version 99"),
    ("result", "binary"): (data(b"\xff\x00"), "'{path}' is "),
    ("result", "nested deeply"): (data(NESTED), "'{path}' is "),
    ("result", "foreign"): (data(b'{"accuracy": 0.99}'), "'{path}' is "),
    ("result", "of a newer version"): (edit(version=99), "'{path}' "),
    ("result", "of an unknown task"): (edit(task="captioning"), "'{path}' "),
    ("result", "with half a character"): (data(b'{"format": "prism-result", "label": "\\ud800"}'), "'{path}' is "),
}
"""What is done to a good file, and the beginning of the sentence."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good file of every kind, in a folder of its own."""
    made = {kind: tmp_path_factory.mktemp(kind) / "given" for kind in MAKE}
    for kind, path in made.items():
        MAKE[kind](path)
        READ[kind](path)
    return made


def spoiled(kind: str, name: str, good: dict[str, Path], folder: Path) -> Path:
    path = folder / "given"
    shutil.copytree(good[kind], path) if good[kind].is_dir() else shutil.copy(good[kind], path)
    SPOILED[kind, name][0](path)
    return path


@pytest.mark.parametrize(("kind", "name"), SPOILED)
def test_a_bad_file_gives_a_sentence_on_one_line(kind, name, good, tmp_path):
    path = spoiled(kind, name, good, tmp_path)
    sentence = refusal_of(ArtifactError, READ[kind], path)
    assert sentence.startswith(SPOILED[kind, name][1].format(path=path))
    assert sentence.endswith((".", "?"))
    assert str(path) in sentence
    assert len(sentence) < 1000
    assert printable(sentence).isprintable()


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    """What is fuzzed for a moment here, and for long with `make fuzz`."""
    return {name: make(tmp_path_factory.mktemp("fuzz")) for name, make in TARGETS.items()}


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=either(250, 5000))
@given(st.data())
def test_whatever_is_read_only_a_prism_error_comes_out(name, targets, data):
    target = targets[name]
    target.try_(data.draw(st.one_of(st.binary(max_size=200), mutated(target.seed))))


WATCHED = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_hostile_files import READ
from prism.errors import PrismError
def read(kind, path):
    try:
        READ[kind](Path(path))
    except PrismError:
        pass
# Once without looking, so that every library has imported what it imports late.
for kind, path in {files!r}:
    read(kind, path)
FORBIDDEN = ("pickle.find_class", "exec", "compile", "os.system", "os.exec", "os.posix_spawn", "os.fork",
             "subprocess.Popen", "socket.", "ctypes.dlopen", "marshal.loads", "import")
seen, watching = [], True
def watch(event, arguments):
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if watching and (writes or event.startswith(FORBIDDEN)):
        seen.append((event, str(arguments)[:200]))
sys.addaudithook(watch)
for kind, path in {files!r}:
    read(kind, path)
watching = False
assert not seen, seen
watching = True
import pickle
try:
    pickle.loads(b"\\x80\\x04cos\\nsystem\\n.")
except Exception:
    pass
watching = False
assert seen, "the hook does not see what it is there for"
"""


def test_nothing_that_is_read_runs_code_starts_a_process_opens_a_socket_or_writes(good, tmp_path):
    files = [(kind, str(path)) for kind, path in good.items()]
    for at, (kind, name) in enumerate(SPOILED):
        (tmp_path / str(at)).mkdir()
        files.append((kind, str(spoiled(kind, name, good, tmp_path / str(at)))))
    here = Path(__file__).parent
    printed(WATCHED.format(paths=[str(here), str(here.parent), str(here.parents[1])], files=files))
