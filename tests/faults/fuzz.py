"""The readers of sets, stores and results on bad files; `python fuzz.py` runs them coverage-guided with atheris.

python tests/faults/fuzz.py [seconds of each reader]      what `make fuzz` does
"""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[i]) for i in (0, 1, 2)]
    if "--target" in sys.argv:
        import atheris

        # The branches that an input takes in what parses and checks it lead to the next input.
        with atheris.instrument_imports(include=["prism"]):
            importlib.import_module("prism.reports.sources")

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
        signed = first.replace(json.loads(header)["sha256"]["clips.csv"].encode(), sha256_of(path))
        (path / "store.json").write_bytes(signed)

    return Target(header + b"\x1e" + index, write, lambda: ClipStore.open(path))


def sha256_of(path: Path) -> bytes:
    return file_sha256(path / "clips.csv").encode()


def the_result(folder: Path) -> Target:
    """A result, and the words about it."""
    path = folder / "result.json"
    make_result(path)
    return Target(path.read_bytes(), path.write_bytes, lambda: str(Result.load(path)))


TARGETS = {"set": the_set, "store": the_store, "result": the_result}
TOKENS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"\n",
        b"\r",
        b"\0",
        b"\x1e",
        b"\xff",
        b"\xef\xbb\xbf",
        b"-1",
        b"0",
    ),
    *(b"null", b"true", b"NaN", b"1e999", b"9" * 30, b"9" * 400, b"9" * 5000, b"\\ud800", b"[" * 2000),
    *(b"../", b"/etc/passwd", b"\x1b[2J", b"<script>"),
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


def fuzz(name: str, seconds: int) -> None:
    """Run one target coverage-guided until its time is over or something escapes."""
    import atheris

    folder = Path(tempfile.mkdtemp())
    target = TARGETS[name](folder)
    seeds = folder / "seeds"
    seeds.mkdir()
    (seeds / "good").write_bytes(target.seed)
    for number, token in enumerate(TOKENS):
        half = len(target.seed) // 2
        (seeds / str(number)).write_bytes(target.seed[:half] + token + target.seed[half:])
    limits = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=4096", "-max_len=16384"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", str(seeds)], target.try_)
    atheris.Fuzz()


def main() -> None:
    """Fuzz every target in a process of its own, and say how many inputs each was given."""
    seconds, failed = int(sys.argv[1]) if len(sys.argv) > 1 else 60, False
    for name in TARGETS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            command = [sys.executable, __file__, "--target", name, str(seconds)]
            environment = {**os.environ, "TMPDIR": folder}
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", env=environment)
        words = [line.split() for line in done.stderr.splitlines() if line.startswith("Done ")]
        runs = int(words[-1][1]) if words else 0
        print(f"{name:10} {runs:9,} inputs in {time.monotonic() - started:4.0f} s", flush=True)
        if done.returncode:
            failed = True
            print(done.stderr[-4000:], flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    if "--target" in sys.argv:
        fuzz(sys.argv[2], int(sys.argv[3]))
    else:
        main()
