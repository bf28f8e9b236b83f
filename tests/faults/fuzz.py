"""The readers of sets, stores and results on bad files.

python tests/faults/fuzz.py set 60      reads broken sets for 60 seconds, coverage-guided with atheris
"""

import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    import atheris

    sys.path[:0] = [str(Path(__file__).parents[i]) for i in (0, 1, 2)]
    # The branches that an input takes in what parses and checks it lead to the next input.
    with atheris.instrument_imports(include=["prism"]):
        importlib.import_module("prism.reports.page")

import safetensors
import safetensors.torch
from conftest import write_store
from exhibits import Exhibit
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from prism.artifacts.condensed import CondensedSet, _digest
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.errors import PrismError
from prism.machine.files import file_sha256


@dataclass(frozen=True)
class Target:
    """A reader, the file whose bytes are changed, and the bytes of a good one."""

    seed: bytes
    write: Callable[[bytes], object]
    read: Callable[[], object]

    def try_(self, content: bytes) -> None:
        """Read a file of some bytes; whatever is wrong with them has to be a PrismError of one sentence."""
        self.write(content)
        try:
            self.read()
        except PrismError as error:
            if not str(error).endswith((".", "?")):
                raise AssertionError(f"no sentence: {error!r}") from None


def make_set(path: Path) -> None:
    shutil.copy(Exhibit.build(path.parent / "beside", ["left", "right"]).condensed("set"), path)


def make_store(path: Path) -> None:
    write_store(path, num_frames=2, size=4)


def make_result(path: Path) -> None:
    exhibit = Exhibit.build(path.parent / "beside", ["left", "right"])
    shutil.copy(exhibit.of_set(exhibit.condensed("set")), path)


def the_set(folder: Path) -> Target:
    """The metadata of a set, signed anew, so that no checksum protects what comes after it."""
    path = folder / "set"
    make_set(path)
    with safetensors.safe_open(path, framework="pt") as file:
        text = file.metadata()["prism"]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def write(content: bytes) -> None:
        try:
            value = json.loads(content)
            value["sha256"] = _digest({key: value[key] for key in value if key != "sha256"}, tensors)
            content = json.dumps(value).encode()
        except (ValueError, TypeError, RecursionError):
            pass
        path.write_bytes(safetensors.torch.save(tensors, {"prism": content.decode("utf-8", "replace")}))

    return Target(text.encode(), write, lambda: CondensedSet.load(path).render())


def the_store(folder: Path) -> Target:
    """The header and the index of a store, with a checksum that fits."""
    path = folder / "store"
    make_store(path)
    header, index = ((path / name).read_bytes() for name in ("store.json", "clips.csv"))

    def write(content: bytes) -> None:
        first, _, second = content.partition(b"\x1e")
        (path / "clips.csv").write_bytes(second)
        checksum = json.loads(header)["sha256"]["clips.csv"].encode()
        signed = first.replace(checksum, file_sha256(path / "clips.csv").encode())
        (path / "store.json").write_bytes(signed)

    return Target(header + b"\x1e" + index, write, lambda: ClipStore.open(path))


def the_result(folder: Path) -> Target:
    """A result, and the words about it."""
    path = folder / "result.json"
    make_result(path)
    return Target(path.read_bytes(), path.write_bytes, lambda: str(Result.load(path)))


TARGETS = {"set": the_set, "store": the_store, "result": the_result}
TOKENS = [
    *(b"\n", b"\r", b"\0", b"\x1e", b"\xff", b"\xef\xbb\xbf", b"9" * 30, b"9" * 400, b"9" * 5000, b"[" * 2000),
    *rb'{ } [ ] " , : -1 0 null true NaN 1e999 \ud800 ../ /etc/passwd <script>'.split(),
    b"\x1b[2J",
]


@st.composite
def mutated(draw: DrawFn, seed: bytes) -> bytes:
    """A good file with a few places overwritten, cut out or filled with what parsers stumble over."""
    content = seed
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        cut = draw(st.sampled_from([0, 1, 2, 8, 64]))
        put = draw(st.one_of(st.sampled_from([b"", *TOKENS]), st.binary(max_size=4)))
        content = content[:at] + put + content[at + cut :]
    return content


def main(name: str, seconds: str) -> None:
    """Run one target coverage-guided until its time is over or something escapes."""
    import atheris

    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:
        folder = Path(made)
        target, seeds = TARGETS[name](folder), folder / "seeds"
        seeds.mkdir()
        half = len(target.seed) // 2
        for number, token in enumerate([b"", *TOKENS]):
            (seeds / str(number)).write_bytes(target.seed[:half] + token + target.seed[half:])
        limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=4096", "-max_len=16384"]
        # A process that has fuzzed ends at once, so that another one has to tidy up.
        if (child := os.fork()) == 0:
            atheris.Setup([sys.argv[0], *limits, str(seeds)], target.try_)
            atheris.Fuzz()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
