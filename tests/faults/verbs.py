"""Every verb as a command, on a problem of seconds: what is killed, and what must give the same bytes."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from conftest import write_store
from launcher import Ended, Launcher
from videos import write_classes

from prism.evaluation.evaluate import evaluate
from prism.selection.select import select

RECIPE = """
[condense]
iterations = 6
lr = 1.0
width = 2
[evaluate]
width = 2
epochs = 1
seeds = 1
"""


@dataclass(frozen=True)
class Verb:
    """A run of a verb.

    Attributes:
        words: the command but for its output; `{root}` is the folder that `write_inputs` fills.
        output: its output's name.
        repeat: what is added when it is repeated after a kill.
        has_workers, has_bar: whether it takes `--workers`, and `--no-progress`.
        rewritten: files of a folder that are written anew whenever another file has been added to it; none where
            a folder appears as a whole.
        tells_time: files of the folder, or beside the output, whose text tells times, which differ.
    """

    words: str
    output: str
    repeat: tuple[str, ...] = ()
    has_workers: bool = False
    has_bar: bool = True
    rewritten: tuple[str, ...] = ()
    tells_time: tuple[str, ...] = ()

    def run(self, launcher: Launcher, root: Path, folder: Path, *more: object, **options: object) -> Ended:
        """Run it in a folder, with more arguments, and options of `Launcher.run`."""
        words = self.words.format(root=root).split()
        return launcher.run(*words, "-o", folder / self.output, *more, **options)  # type: ignore[arg-type]


CONDENSE = (
    "condense {root}/store --device cpu --width 2 --iterations 10 --batch-real 2 --recipe paper --epsilon 0.03 "
    "--static-iterations 2 --checkpoint-seconds 0"
)
SELECT = "select {root}/store --device cpu --width 2 --epochs 1"
# Small batches, for many steps: what differs in the last bit then differs in the training loss.
TRAIN = "--data {root}/store --device cpu --width 2 --epochs 3 --batch-size 2 --seeds 2"

VERBS = {
    "motion": Verb("motion --train-per-class 1 --test-per-class 1 --num-frames 8 --size 32", "motion"),
    "ingest": Verb(
        "ingest {root}/videos --num-frames 8 --stride 1 --size 48 --random-test-windows 3",
        "store",
        has_workers=True,
    ),
    **{
        f"condense, {method}": Verb(f"{CONDENSE} --method {method}", "set.safetensors", ("--resume",))
        for method in ("prism", "dm", "static-dynamic")
    },
    **{
        f"select, {method}": Verb(f"{SELECT} --method {method}", "chosen.safetensors", ("--overwrite",))
        for method in ("random", "herding", "k-center")
    },
    "evaluate": Verb(
        "evaluate {root}/chosen.safetensors " + TRAIN, "result.json", ("--resume",), has_workers=True
    ),
    "evaluate, wang2024": Verb(
        "evaluate {root}/chosen.safetensors --protocol wang2024 " + TRAIN,
        "result.json",
        ("--resume",),
        has_workers=True,
    ),
    "evaluate, takes": Verb(
        "evaluate {root}/takes.safetensors " + TRAIN, "result.json", ("--resume",), has_workers=True
    ),
    "evaluate, cnn-gru": Verb(
        "evaluate {root}/chosen.safetensors --model cnn-gru " + TRAIN,
        "result.json",
        ("--resume",),
        has_workers=True,
    ),
    "evaluate, real clips": Verb(
        "evaluate --train {root}/store --train-vpc 2 " + TRAIN, "result.json", ("--resume",), has_workers=True
    ),
    "retrieve": Verb(
        "retrieve {root}/chosen.safetensors " + TRAIN, "recall.json", ("--resume",), has_workers=True
    ),
    "export, videofolder": Verb("export {root}/chosen.safetensors", "out", ("--overwrite",)),
    "report": Verb("report {root}/result.json", "page.html", has_bar=False),
    "reproduce": Verb(
        "reproduce table6a --data {root}/store --scale small --recipe {root}/tiny.toml --device cpu",
        "tables",
        rewritten=("table6a-small-*",),
        tells_time=("table6a-small-*.md", "table6a-small-*.html"),
    ),
}


def write_inputs(root: Path) -> None:
    """What the verbs read: some videos, a store of random pixels, a selection of it and its result."""
    write_classes(root / "videos", videos=5, num_frames=10)
    store = write_store(root / "store", train=10, val=0, test=1, random_test_windows=3)
    select(store, output=root / "chosen.safetensors", vpc=2)
    select(store, output=root / "takes.safetensors", vpc=2, takes=4, storage="h264")
    evaluate(
        root / "chosen.safetensors", store, output=root / "result.json", width=2, epochs=1, seeds=2, device="cpu"
    )
    (root / "tiny.toml").write_text(RECIPE)


def forget(root: Path) -> None:
    """Delete what runs left in the store, which would shorten the next one."""
    shutil.rmtree(root / "store" / "cache", ignore_errors=True)
