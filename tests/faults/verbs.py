"""Every verb as a command, on a problem of seconds: what is killed, and what must give the same bytes."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from conftest import write_store
from launcher import Ended, Launcher
from videos import write_classes

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
        rewritten: files of a folder that are written anew whenever another file has been added to it.
        tells_time: files of the folder, or beside the output, whose text tells times, which differ.
    """

    words: str
    output: str
    repeat: tuple[str, ...] = ()
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
TRAIN = "--data {root}/store --device cpu --width 2 --epochs 3 --batch-size 2 --seeds 2"
TABLES = "reproduce table6a --data {root}/store --scale small --recipe {root}/tiny.toml --device cpu"
TIMES = "table6a-small-*.md", "table6a-small-*.html"

VERBS = {
    "ingest": Verb("ingest {root}/videos --num-frames 8 --stride 1 --size 48", "store"),
    "condense": Verb(CONDENSE, "set.safetensors", ("--resume",)),
    "static-dynamic": Verb(f"{CONDENSE} --method static-dynamic", "set.safetensors", ("--resume",)),
    "evaluate": Verb("evaluate {root}/chosen.safetensors " + TRAIN, "result.json", ("--resume",)),
    "export": Verb("export {root}/chosen.safetensors", "out", ("--overwrite",)),
    "reproduce": Verb(TABLES, "tables", rewritten=("table6a-small-*",), tells_time=TIMES),
}


def write_inputs(root: Path) -> None:
    """Write what the verbs read: some videos, a store of random pixels, and a selection of it."""
    write_classes(root / "videos", videos=5, num_frames=10)
    select(write_store(root / "store", train=10, val=0, test=1), output=root / "chosen.safetensors", vpc=2)
    (root / "tiny.toml").write_text(RECIPE)


def forget(root: Path) -> None:
    """Delete what runs left in the store, which would shorten the next one."""
    shutil.rmtree(root / "store" / "cache", ignore_errors=True)
