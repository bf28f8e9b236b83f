"""Every verb writes what it wrote: digests of all outputs, recorded at commit 2196deb before rooms became nouns.

Only the command line and files are used, so the test outlives any change of modules and names. To record anew,
where outputs are meant to change:

    PRISM_RECORD=1 python -m pytest tests/test_unchanged.py

What tells of the clock, the machine and versions is left out, and so is what is to be deleted on purpose: the
options of the bank of class means. Another processor or library rounds otherwise: `golden/verbs.json` begins with
fingerprints of sums, pictures and plots. Where one differs from this machine's, the outputs that need it are
compared in their form and their losses only.
"""

import csv
import hashlib
import io
import itertools
import json
import math
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from prism.cli import main

GOLDEN = Path(__file__).parent / "golden" / "verbs.json"
TOLERANCE = 1e-2
"""How far losses may be apart, as a share, where another processor computes."""

VOLATILE = {
    *("commit", "command", "host", "system", "processor", "threads", "gpu", "date"),
    *("seconds", "condense_seconds", "run_seconds", "peak_memory_bytes"),
}
VERSIONS = {"versions", "prism", "torch", "python"}
GONE = {"real_moments", "bank_size", "bank_refresh", "bank_seed"}
"""Options that a set tells of and that are to be deleted."""
LEFT_OUT = VOLATILE | VERSIONS | GONE
SIZES = {"num_bytes", "bytes"}
"""Fields that may hold a set's size, which depends on how long the names of versions and options are."""
COLUMNS = {"on disk", "to condense", "time/run"}
"""Columns of tables for readers that tell of time, or of such a size."""

RECIPE = """
[condense]
iterations = 2
static_iterations = 2
batch_real = 3
width = 2
warmup = 0.0
cooldown = 0.0
[select]
width = 2
epochs = 1
[evaluate]
width = 2
epochs = 1
seeds = 2
"""

CONDENSE = "condense clips --device cpu --width 4 --batch-real 3 --iterations 4 --warmup 0 --cooldown 0"
SELECT = "select clips --device cpu --width 4 --epochs 2"
TRAIN = "--data clips --device cpu --width 4 --epochs 6 --batch-size 4 --lr 0.02 --seeds 2"
SMALL = (
    "--data small --device cpu --model cnn-gru --width 4 --hidden 8 --epochs 6 --batch-size 8 --lr 0.1 --seeds 2"
)

MADE = {
    "motion": "motion --train-per-class 3 --test-per-class 1 --num-frames 12 --size 48",
    "clips": "ingest list.csv --num-frames 8 --stride 1 --size 44 --clips-per-video 4 --random-test-windows 3",
    "small": "ingest motion --num-frames 4 --stride 2 --size 16 --val-fraction 0.3 --seed 1",
    "default.safetensors": CONDENSE,
    "dm.safetensors": f"{CONDENSE} --method dm --vpc 2",
    "static-dynamic.safetensors": f"{CONDENSE} --method static-dynamic --static-iterations 3 --storage float16",
    "budget.safetensors": f"{CONDENSE} --insertion budget --budget 3.5 --vpc 2",
    "random-insertion.safetensors": f"{CONDENSE} --insertion random --epsilon 0.05 --checkpoint-seconds 0",
    "l2.safetensors": f"{CONDENSE} --insertion l2 --epsilon 0.1 --seed 1",
    "estimated.safetensors": f"{CONDENSE} --gradient parameter --gradient-decay 0.9 --epsilon 0.4",
    "bfloat16.safetensors": f"{CONDENSE} --precision bfloat16 --storage uint8",
    "scaled.safetensors": f"{CONDENSE} --keyframe-scale 2 --storage float16",
    "h264.safetensors": f"{CONDENSE} --initial-keyframes 4 --init real --storage h264",
    "learnable.safetensors": f"{CONDENSE} --initial-keyframes 3 --fully-learnable",
    "recurrent.safetensors": f"{CONDENSE.replace('clips', 'small')} --model cnn-gru --epsilon 0.4",
    "random.safetensors": f"{SELECT} --method random --takes 1 --storage uint8 --vpc 2",
    "takes.safetensors": SELECT,
    "herding.safetensors": f"{SELECT} --method herding --takes 1 --storage uint8 --vpc 3",
    "k-center.safetensors": f"{SELECT} --method k-center --takes 1 --storage uint8 --vpc 3",
    "small-takes.safetensors": "select small --device cpu --takes 2 --storage uint8",
    "default.json": f"evaluate default.safetensors {TRAIN}",
    "dm.json": f"evaluate dm.safetensors {TRAIN} --model cnn-lstm --hidden 4",
    "static-dynamic.json": f"evaluate static-dynamic.safetensors {TRAIN}",
    "drawn.json": f"evaluate takes.safetensors {TRAIN} --shift 0.2 --split val --label 'drawn takes'",
    "herding.json": f"evaluate herding.safetensors {TRAIN} --protocol wang2024",
    "floor.json": f"evaluate --train clips --train-vpc 1 {TRAIN} --protocol wang2024 --model r2plus1d-18",
    "ceiling.json": f"evaluate --train clips {TRAIN} --shift 0.1",
    "recurrent.json": f"evaluate recurrent.safetensors {SMALL}",
    "small-floor.json": f"evaluate --train small --train-vpc 1 {SMALL} --shift 0.3",
    "takes-recall.json": f"retrieve takes.safetensors {TRAIN}",
    "small-recall.json": f"retrieve small-takes.safetensors {SMALL} --temperature 0.2",
    "full-recall.json": f"retrieve --train small {SMALL} --shift 0",
    "page.html": "report default.json dm.json static-dynamic.json drawn.json herding.json floor.json ceiling.json "
    "recurrent.json small-floor.json takes-recall.json small-recall.json full-recall.json",
    "tables": "reproduce table3 --data clips --recipe tiny.toml --device cpu",
}
"""Output: the command but for its name, in an order in which each finds what it reads."""

SAID = {
    "store-info.json": "info small --json",
    "set-info.json": "info estimated.safetensors --json",
    "takes-info.json": "info takes.safetensors --json",
    "result-info.json": "info floor.json --json",
    "recall-info.said": "info small-recall.json",
    "missing.said": "reproduce table7 --data clips --scale small --dry-run",
}
"""File for what is printed: the command, which writes nothing."""

TELLS_TIME = {"page.html", "tables"}
"""Outputs whose commands print times."""
WITHOUT_SUMS = {
    "motion",
    "clips",
    "small",
    "random",
    "takes",
    "small-takes",
    "store-info",
    "takes-info",
    "missing",
}
"""Outputs, but for caches in them, that follow from pictures alone."""


# Run.


def write_all(folder: Path) -> None:
    """Run every verb in a folder, and keep what each prints beside what it writes."""
    (folder / "tiny.toml").write_text(RECIPE)
    (folder / "list.csv").write_text(video_list())
    with chdir(folder):
        for output, words in MADE.items():
            printed = run(*shlex.split(words), "-o", output)
            if output not in TELLS_TIME:
                Path(f"{output}.said").write_text(printed)
        for name, words in SAID.items():
            Path(name).write_text(run(*words.split()))


def video_list() -> str:
    """Some of the built-in videos as a source of three classes, which may be mirrored."""
    rows = ["path,label,split"]
    for label in ("bounce", "growing", "shake"):
        rows += [f"motion/train/{label}/000{k}.mp4,{label},train" for k in range(2)]
        rows += [f"motion/{part}/{label}/000{k}.mp4,{label},{split}" for part, k, split in VIDEOS_APART]
    return "\n".join(rows) + "\n"


VIDEOS_APART = (("train", 2, "val"), ("test", 0, "test"))


def run(*words: str) -> str:
    """Run a command in this process; return what it printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 0, f"prism {shlex.join(words)}\n{printed.getvalue()}"
    return printed.getvalue()


# What of a file lasts.


def outputs(folder: Path) -> dict[str, dict[str, Any]]:
    """For every file under a folder, in the order of writing, what the golden file says of it."""
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns
    )
    sizes = {str(path.stat().st_size) for path in files if path.suffix == ".safetensors"}
    found = {}
    for path in files:
        content = lasting(path, folder, sizes)
        # The digest in a cache's name covers versions.
        name = re.sub(r"-[0-9a-f]{8,16}(?=[-.])", "-#", path.relative_to(folder).as_posix())
        both = digest([content, layout(path)])
        found[name] = {"digest": both, "form": digest(form(content)), "losses": losses(content)}
    return found


def lasting(path: Path, folder: Path, sizes: set[str]) -> Any:
    """A file's content as plain values, without what is volatile."""
    match path.suffix:
        case ".json":
            return kept(json.loads(path.read_text()), sizes)
        case ".jsonl":
            return kept([json.loads(line) for line in path.read_text().splitlines()], sizes)
        case ".csv":
            with path.open(newline="") as file:
                return kept(list(csv.DictReader(file)), sizes)
        case ".safetensors":
            return kept(parts_of_set(path.read_bytes()), sizes)
        case ".html":
            return text_of_page(path.read_text())
        case ".md":
            return without_columns(path.read_text())
        case ".said":
            return said(path.read_text(), folder, sizes)
        case ".svg" if path.stem.endswith("-disk"):
            return "a plot of sets' sizes"
        case _:
            return [path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()]


def kept(values: Any, sizes: set[str]) -> Any:
    """Values without the fields that are left out, and with a word in place of a set's size."""
    if isinstance(values, list):
        return [kept(value, sizes) for value in values]
    if not isinstance(values, dict):
        return values
    # A set's digest covers the versions that it was made with.
    left_out = LEFT_OUT | ({"fingerprint"} if values.get("kind") == "condensed" else set())
    return {
        key: "a set's size" if key in SIZES and str(value) in sizes else kept(value, sizes)
        for key, value in values.items()
        if key not in left_out
    }


def parts_of_set(data: bytes) -> dict[str, Any]:
    """The metadata of a safetensors file, where each tensor lies in it and as what, and a digest of them all."""
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:start])
    text = tensors.pop("__metadata__", {}).get("prism", "{}")
    metadata = {key: value for key, value in json.loads(text).items() if key != "sha256"}
    return {
        "metadata": metadata,
        "is_canonical": is_canonical(text),
        "tensors": tensors,
        "data": hashlib.sha256(data[start:]).hexdigest(),
    }


def layout(path: Path) -> Any:
    """How the values of a file are set, which `lasting` does not tell."""
    match path.suffix:
        case ".json":
            return [indent for indent in (None, 1) if is_canonical(path.read_text(), indent, "\n")]
        case ".jsonl":
            return all(is_canonical(line, end="\n") for line in path.read_text().splitlines(keepends=True))
        case ".csv":
            return path.read_bytes().partition(b"\n")[0].decode()
        case _:
            return None


def is_canonical(text: str, indent: int | None = None, end: str = "") -> bool:
    """Whether a text is JSON as PRISM writes it."""
    return text == json.dumps(json.loads(text), sort_keys=True, indent=indent, ensure_ascii=False) + end


def text_of_page(text: str) -> str:
    """A page without provenance, times, sizes of sets, and the plots against these."""
    text = re.sub(rf"<div><dt>({'|'.join(LEFT_OUT)})</dt><dd>.*?</dd></div>\n", "", text)
    text = re.sub(rf'<td[^>]* data-name="({"|".join(COLUMNS)})">.*?</td>\n', "", text)
    text = re.sub(r"(<dt>seed \d+</dt><dd>.*), .*?</dd>", r"\1</dd>", text)
    text = re.sub(r" · condensed in [^·<]* · peak memory [^·<]* · [^·<]*", "", text)
    return re.sub(r'<img src="[^"]*" (alt="[^"]*on disk)', r"<img \1", text)


def without_columns(text: str) -> list[list[str]]:
    """The cells of a Markdown table without the columns that tell of time and size, and the other lines."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    (heading,) = [row for row in rows if "ours" in row]
    shown = [place for place, name in enumerate(heading) if name not in COLUMNS]
    return [[row[place] for place in shown] if len(row) == len(heading) else row for row in rows]


def said(text: str, folder: Path, sizes: set[str]) -> list[str]:
    """Printed lines, seen from the folder, without sizes of sets and without commands that may name a bank."""
    text = re.sub(r"\d+", lambda number: "#" if number[0] in sizes else number[0], text.replace(f"{folder}/", ""))
    return [line for line in text.splitlines() if not line.startswith("prism condense")]


# Digests, forms and losses.

EXACT = {"config", "settings", "dtype"}
"""Fields that no rounding can change."""


def digest(content: Any) -> str:
    """A few digits that stand for plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def form(content: Any) -> Any:
    """The keys and types of values, without what a rounding could change."""
    if isinstance(content, dict):
        return {key: value if key in EXACT else form(value) for key, value in content.items()}
    if isinstance(content, list) and content and isinstance(content[0], dict) and "kind" in content[0]:
        # Telemetry: how many frames are inserted depends on the sign of a cosine.
        return {one["kind"]: sorted(one) for one in content if one["kind"] in ("start", "step", "end")}
    return [form(content[0])] if isinstance(content, list) and content else type(content).__name__


def losses(content: Any) -> list[float]:
    """The losses of a set's first iteration, or of a result's networks."""
    if isinstance(content, dict):
        return [one["train_loss"] for one in content.get("runs", [])]
    steps = [one for one in content if isinstance(one, dict) and one.get("kind") == "step"]
    return [one["loss"] for one in steps[:1]]


def needs(name: str) -> set[str]:
    """The fingerprints that must be equal for an output to have the same bytes."""
    if Path(name).suffix in (".html", ".svg"):
        return {"sums", "pictures", "plots"}
    is_drawn = re.split("[/.]", name)[0] in WITHOUT_SUMS and "cache" not in name
    return {"pictures"} if is_drawn else {"sums", "pictures"}


# Fingerprints of the machine.


def fingerprints() -> dict[str, str]:
    """What decides here how numbers are rounded, videos coded and plots drawn."""
    return {
        "sums": digest([hashlib.sha256(found.numpy().tobytes()).hexdigest() for found in sums()]),
        "pictures": hashlib.sha256(some_video()).hexdigest()[:16],
        "plots": f"matplotlib {version('matplotlib')}, pillow {version('pillow')}",
    }


def sums() -> list[Tensor]:
    """The kinds of sums that networks, losses and gradients are made of, in one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [found.detach().float() for found in _sums(torch.Generator().manual_seed(0))]
    finally:
        torch.set_num_threads(threads)


def _sums(random: torch.Generator) -> Iterator[Tensor]:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random).requires_grad_()

    clips, kernel, images, filters = (
        draw(3, 3, 8, 44, 44),
        draw(4, 3, 3, 7, 7),
        draw(8, 4, 16, 16),
        draw(4, 4, 3, 3),
    )
    for layout in (torch.contiguous_format, torch.channels_last_3d):
        found = functional.conv3d(clips, kernel.contiguous(memory_format=layout), None, (1, 2, 2), (1, 3, 3))
        yield from (found, *torch.autograd.grad(found.square().mean(), (clips, kernel)))
    yield functional.conv3d(clips.bfloat16(), kernel.bfloat16())
    found = functional.group_norm(functional.conv2d(images, filters, padding=1), 4)
    yield from (found, *torch.autograd.grad(found.exp().mean(), (images, filters)))
    recurrent = nn.GRU(64, 8, batch_first=True)
    for weights in recurrent.parameters():
        weights.data = draw(*weights.shape).detach() / 8
    found, _ = recurrent(images.reshape(8, 16, 64))
    yield from (found, *torch.autograd.grad(functional.cross_entropy(found[:, -1], torch.arange(8)), [images]))
    yield torch.bmm(clips.flatten(2), clips.flatten(2).transpose(1, 2))
    yield clips.flatten(1) @ draw(8 * 3 * 44 * 44, 5)


def some_video() -> bytes:
    """A few curves over a few frames, as H.264 and back, resized."""
    at = np.linspace(-3, 3, 48, dtype=np.float32)
    waves = [np.sin(np.hypot(at[:, None] + shift, at[None, :]) * np.exp(at)) for shift in range(6)]
    frames = (127.5 * (1 + np.stack([waves, waves[::-1], waves[1:] + waves[:1]], axis=-1))).astype(np.uint8)
    data = io.BytesIO()
    with av.open(data, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=12, options={"crf": "18", "threads": "1", "mbtree": "0"})
        stream.height, stream.width, stream.pix_fmt = 48, 48, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    with av.open(io.BytesIO(data.getvalue())) as container:
        read = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    resized = [np.asarray(Image.fromarray(frame).resize((20, 20), Image.Resampling.BICUBIC)) for frame in read]
    return data.getvalue() + np.stack(resized).tobytes()


# Compare.


def problem(name: str, was: dict[str, Any], now: dict[str, Any], same: set[str]) -> str:
    """In what an output differs from the recorded one, beyond what this machine may change; or nothing."""
    if not was or not now:
        return "is new" if now else "is not written any more"
    if needs(name) <= same:
        return "has changed" if was["digest"] != now["digest"] else ""
    if was["form"] != now["form"]:
        return "has another form"
    pairs = itertools.zip_longest(was["losses"], now["losses"], fillvalue=math.inf)
    return "" if all(math.isclose(*pair, rel_tol=TOLERANCE) for pair in pairs) else "has other losses"


def record(found: dict[str, dict[str, Any]]) -> None:
    """Write the golden file, an output in each line."""
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    GOLDEN.write_text(f'{{"fingerprints": {json.dumps(fingerprints())},\n "outputs": {{\n{lines}\n}}}}\n')


def test_every_verb_writes_what_it_wrote_before_the_rooms_moved(tmp_path):
    write_all(tmp_path)
    found = outputs(tmp_path)
    if os.environ.get("PRISM_RECORD"):
        record(found)
    recorded = json.loads(GOLDEN.read_text())
    before, here = recorded["outputs"], fingerprints()
    same = {kind for kind in here if here[kind] == recorded["fingerprints"][kind]}
    # What was written first comes first: the others may only follow from it.
    texts = {name: problem(name, before.get(name, {}), found.get(name, {}), same) for name in [*found, *before]}
    problems = [f"{name} {text}" for name, text in texts.items() if text]
    assert not problems, "\n".join(problems)
