"""Fuzz targets: every reader on the bytes of a file; `python fuzz.py` runs them coverage-guided with atheris.

python tests/faults/fuzz.py [seconds of each target]      what `make fuzz` does
"""

import importlib
import json
import math
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

        # What parses, and what checks it; the branches that an input takes there lead to the next one.
        with atheris.instrument_imports(include=["prism", "tomllib"]):
            importlib.import_module("corpus")

import corpus
import safetensors
import safetensors.torch
import torch
from conftest import write_store
from corpus import KINDS
from exhibits import Exhibit
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from prism.artifacts.cache import CacheFile
from prism.artifacts.condensed import CondensedSet, _digest
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import Telemetry, seconds_to_make
from prism.errors import PrismError
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import Window
from prism.ingestion.splits import list_videos
from prism.ingestion.task import Outcome
from prism.ingestion.working import working_folder
from prism.reports.histories import Curves
from prism.reports.page import summary_tables
from prism.reports.sources import load_results


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


def of_kind(name: str, part: str = "") -> Callable[[Path], Target]:
    """The target of a kind of the corpus, whose file (or the part of its folder) is changed."""

    def make(folder: Path) -> Target:
        path = folder / KINDS[name].name
        KINDS[name].make(path)
        file = path / part if part else path
        return Target(file.read_bytes(), file.write_bytes, lambda: KINDS[name].read(path))

    return make


def signed_metadata(folder: Path) -> Target:
    """A condensed set whose metadata is changed and then signed, so that no checksum protects the rest."""
    path = folder / "set"
    KINDS["set"].make(path)
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
        signed = safetensors.torch.save(tensors, {"prism": content.decode("utf-8", "replace")})
        path.write_bytes(signed)

    return Target(text.encode(), write, lambda: CondensedSet.load(path))


def signed_packets(folder: Path) -> Target:
    """A compressed set whose packets are changed and then signed: what reaches a decoder."""
    path = folder / "set"
    KINDS["h264"].make(path)
    whole = path.read_bytes()
    with safetensors.safe_open(path, framework="pt") as file:
        packets, sizes = file.get_tensor("packets"), file.get_tensor("packet_sizes")

    def write(content: bytes) -> None:
        path.write_bytes(whole)
        changed = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8)
        # What was put in or cut out moves the packets behind it, and the last one takes the difference.
        last = sizes[-1:] + len(changed) - len(packets)
        corpus.signed_set(packets=changed, packet_sizes=torch.cat([sizes[:-1], last]))(path)

    return Target(packets.numpy().tobytes(), write, lambda: KINDS["h264"].read(path))


def signed_clips(folder: Path) -> Target:
    """A store whose index is changed and then signed."""
    path = folder / "store"
    KINDS["store"].make(path)

    def write(content: bytes) -> None:
        (path / "clips.csv").write_bytes(content)
        corpus._sign(path)

    return Target((path / "clips.csv").read_bytes(), write, lambda: KINDS["store"].read(path))


ANNOTATIONS = {
    "hmdb51": ("clap_test_split1.txt", "a.avi 1\nb.avi 2\n", ["clap/a.avi", "clap/b.avi"]),
    "kinetics400": (
        "train.csv",
        "label,youtube_id,time_start,time_end,split\njump,abc,1,11,train\n",
        ["abc_000001_000011.mp4"],
    ),
    "ssv2": ("train.json", '[{"id": "1", "template": "Do [something]"}]', ["1.webm"]),
}


def annotations(layout: str) -> Callable[[Path], Target]:
    """An official annotation file, beside the others that its layout needs."""
    name, text, videos = ANNOTATIONS[layout]

    def make(folder: Path) -> Target:
        source = folder / "source"
        for video in videos:
            (source / video).parent.mkdir(parents=True, exist_ok=True)
            (source / video).touch()
        (source / "validate.csv").write_text("label,youtube_id,time_start,time_end,split\njump,b,1,11,validate\n")
        (source / "labels.json").write_text('{"Do something": "0"}')
        (source / "validation.json").write_text('[{"id": "2", "template": "Do [something]"}]')
        config = IngestConfig(layout=layout)  # type: ignore[arg-type]
        return Target(text.encode(), (source / name).write_bytes, lambda: list_videos(source, config))

    return make


def described(folder: Path) -> Target:
    """Anything that `prism info` is given."""
    path = folder / "given"
    result = Exhibit.build(folder / "beside", ["a", "b"]).of_store("full", 8)
    shutil.copy(result, path)
    return Target(path.read_bytes(), path.write_bytes, lambda: KINDS["anything"].read(path))


def resumed_ingest(name: str) -> Callable[[Path], Target]:
    """A file of an unfinished store, which the next ingest goes on from."""

    def make(folder: Path) -> Target:
        path, plan = folder / ".store.partial", "a plan"
        working = working_folder(path, plan, [0, 12, 24])
        working.record(0, Outcome((Window(3, 2),), 20))
        working.record(1, Outcome(reason="the file is empty."))
        working.sync()

        def read() -> None:
            found = working_folder(path, plan, [0, 12, 24])
            assert all(0 <= video < 2 for video in found.outcomes)
            assert all(type(w.start) is int for outcome in found.outcomes.values() for w in outcome.windows)

        return Target((path / name).read_bytes(), (path / name).write_bytes, read)

    return make


def cached(folder: Path) -> Target:
    """A file of a store's cache: whatever it holds, a tensor of the right kind comes back."""
    store, device = write_store(folder / "store", num_frames=2, size=4), torch.device("cpu")
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def read() -> None:
        found = CacheFile.of(store, "moments", {}, device, (2, 2)).get(lambda: values)
        assert found.shape == (2, 2)
        assert found.dtype == torch.float32
        assert found.isfinite().all()

    read()
    (file,) = (store.path / "cache").iterdir()
    return Target(file.read_bytes(), file.write_bytes, read)


def windowed(folder: Path) -> Target:
    """The header of a store that has random windows of its test videos."""
    path = folder / "store"
    write_store(path, num_frames=2, size=4, random_test_windows=2)
    file = path / "store.json"
    return Target(file.read_bytes(), file.write_bytes, lambda: ClipStore.open(path).num_passes)


def said(folder: Path) -> Target:
    """A result, and what tables, pages and the terminal say of one that is read."""
    path = folder / "given"
    KINDS["result"].make(path)

    def read() -> None:
        results = load_results([path])
        assert str(results[0])
        summary_tables(results)

    return Target(path.read_bytes(), path.write_bytes, read)


def timed(folder: Path) -> Target:
    """Telemetry, and what a page and a table of the paper take from it."""
    path = folder / "set.telemetry.jsonl"
    KINDS["telemetry"].make(path)
    condensed = CondensedSet.load(folder / "beside" / "set")

    def read() -> None:
        assert math.isfinite(seconds_to_make(folder / "set", condensed))
        Curves.read(Telemetry.load(path))

    return Target(path.read_bytes(), path.write_bytes, read)


TARGETS: dict[str, Callable[[Path], Target]] = {
    "set": of_kind("set"),
    "set, signed": signed_metadata,
    "h264, signed": signed_packets,
    "store.json": of_kind("store", "store.json"),
    "clips.csv, signed": signed_clips,
    "result, reported": said,
    "telemetry, drawn": timed,
    "store.json, random windows": windowed,
    "cache": cached,
    "journal.jsonl": resumed_ingest("journal.jsonl"),
    "plan.json": resumed_ingest("plan.json"),
    "checkpoint": of_kind("checkpoint"),
    "recipe": of_kind("recipe"),
    "list": of_kind("list"),
    "prism.json": of_kind("folder", "prism.json"),
    "classInd.txt": of_kind("ucf101", "classInd.txt"),
    "trainlist01.txt": of_kind("ucf101", "trainlist01.txt"),
    "hmdb51": annotations("hmdb51"),
    "kinetics400": annotations("kinetics400"),
    "ssv2": annotations("ssv2"),
    "anything": described,
}

TOKENS = [
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\n", b"\r", b"\0", b" ", b"=", b"\xff", b"\xef\xbb\xbf"),
    *(
        b"null",
        b"true",
        b"NaN",
        b"1e999",
        b"-1",
        b"0",
        b"9" * 30,
        b"9" * 400,
        b"9" * 5000,
        b"\\ud800",
        b"[" * 2000,
    ),
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
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    total, failed = 0, []
    for name in TARGETS:
        started = time.monotonic()
        command = [sys.executable, __file__, "--target", name, str(seconds)]
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
            environment = {**os.environ, "TMPDIR": folder}
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", env=environment)
        words = [line.split() for line in done.stderr.splitlines() if line.startswith("Done ")]
        runs = int(words[-1][1]) if words else 0
        total += runs
        print(f"{name:20} {runs:9,} inputs in {time.monotonic() - started:4.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stderr[-4000:], flush=True)
    print(f"{'all':20} {total:9,} inputs; {len(failed)} targets failed {failed or ''}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    if "--target" in sys.argv:
        fuzz(sys.argv[2], int(sys.argv[3]))
    else:
        main()
