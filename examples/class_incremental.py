"""A memory for class-incremental learning: classes arrive two by two, and the earlier ones are replayed.

    python -m examples.class_incremental runs/store 'runs/prism-{seed}.safetensors' --pixels 6144 98304

A network with one output for every class learns task after task. It sees the real clips of the two new classes,
and of earlier classes only what a memory kept: the videos of a set (`prism condense`, `prism select`), or random
real clips as plain pixels. Beside them stand the floor, which keeps nothing; the ceiling, which learns all classes
at once in as many steps; and a memory of every real clip.

Accuracies are means over classes. Forgetting (Chaudhry et al. 2018, arXiv 1801.10112) is the best accuracy of a
task before the last task, less that at the end, as a mean over all tasks but the last. All classes so far count as
answers, so some of it is no loss: the first task begins with two answers, and ends with all.
"""

import json
import math
import random
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

import prism
from prism.machine.provenance import provenance
from prism.networks.convnet3d import ConvNet3D

CLASSES_OF_A_TASK, BATCH, RATE = 2, 10, 0.005


class Memory(NamedTuple):
    """Bytes and clips of each class, and a function that draws a video (T, C, H, W) of a class."""

    num_bytes: float
    num_clips: float
    video: Callable[[int], Tensor]


def places(data: prism.VideoDataset) -> list[list[int]]:
    """The positions of each class's videos."""
    return [[at for at, its in enumerate(data.targets) if its == label] for label in range(len(data.classes))]


def of_all(real: prism.VideoDataset) -> Memory:
    """Every real clip: what a task learns from, and a memory without a limit."""
    of_class, each = places(real), len(real) / len(real.classes)
    return Memory(each * real[0][0].numel(), each, lambda label: real[random.choice(of_class[label])][0])


def of_set(path: Path) -> Memory:
    """A set of PRISM; what it holds of a class was kept as the class came only if classes were independent."""
    data = prism.load(path, output_format="TCHW", normalise=False)
    of_class, num_clips = places(data), prism.CondensedSet.load(path).stored_clips

    def video(label: int) -> Tensor:
        data.draw(random.getrandbits(32))  # another clip of each video, where it has takes; else the same
        return data[random.choice(of_class[label])][0]

    return Memory(path.stat().st_size / len(of_class), num_clips / len(of_class), video)


def of_pixels(real: prism.VideoDataset, num_bytes: int) -> Memory:
    """Random real clips in 8 bits: as many as fit; else one, reduced to the largest square frames that fit."""
    num_frames, channels, *size = real[0][0].shape
    num_clips, side = num_bytes // real[0][0].numel(), math.isqrt(num_bytes // (num_frames * channels))
    chosen = [random.sample(own, min(len(own), max(1, num_clips))) for own in places(real)]
    resized = partial(functional.interpolate, mode="bilinear", antialias=True)  # the same size changes nothing
    kept_size = size if num_clips else [side, side]
    kept = [[resized(real[at][0], kept_size).mul(255).round().byte() for at in own] for own in chosen]

    def video(label: int) -> Tensor:
        return resized(random.choice(kept[label]) / 255, size)

    return Memory(sum(clip.nbytes for own in kept for clip in own) / len(kept), fmean(map(len, kept)), video)


def learn(given: Namespace, tasks: list[list[int]], new: Memory, old: Memory | None) -> list[list[float]]:
    """Learn task after task; the accuracies on all tasks so far, after each of them."""
    store, test = given.store, given.store.clips(given.split)
    network = ConvNet3D(num_classes=len(store.classes), num_frames=store.num_frames, size=store.size, width=16)
    network = network.to(memory_format=torch.channels_last_3d)  # the same, but sooner
    optimiser = torch.optim.SGD(network.parameters(), RATE, momentum=0.9, weight_decay=5e-4)

    def logits(videos: Tensor) -> Tensor:
        return network(store.normalisation.apply(videos).transpose(1, 2))

    @torch.no_grad()
    def accuracy(label: int) -> float:
        frames = test.frames[test.labels == label]
        return 100 * float((logits(frames / 255).argmax(dim=1) == label).float().mean())

    accuracies: list[list[float]] = []
    for number, task in enumerate(tasks):
        network.train()
        shown = task + [label for earlier in tasks[:number] if old for label in earlier]
        for _ in range(given.steps * len(task)):
            # Every class has the same share of a batch, else the new ones would push out the old ones.
            labels = [label for _ in range(BATCH) for label in random.sample(shown, len(shown))][:BATCH]
            videos = [old.video(label) if old and label not in task else new.video(label) for label in labels]
            if store.flip:
                videos = [video.flip(-1) if random.random() < 0.5 else video for video in videos]
            loss = functional.cross_entropy(logits(torch.stack(videos)), torch.tensor(labels))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)  # else some networks stay at chance
            optimiser.step()
        network.eval()
        accuracies.append([fmean(accuracy(label) for label in earlier) for earlier in tasks[: number + 1]])
    return accuracies


def main() -> None:
    """Print a row for every memory."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", type=prism.ClipStore.open)
    parser.add_argument("sets", nargs="*", help="set files; {seed} in a name stands for the number of the seed")
    parser.add_argument("--pixels", type=int, nargs="*", default=[], help="bytes of each class")
    parser.add_argument("--seeds", type=int, default=5, help="two or more: networks, orders, random clips")
    parser.add_argument("--steps", type=int, default=25, help="of ten clips, for each new class")
    parser.add_argument("--split", default="test", choices=["val", "test"], help="choose the steps on val")
    parser.add_argument("--output", type=Path, help="JSON file for the scores of every seed")
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error(f"--seeds is {given.seeds}, but an error needs two or more")
    for path in (name.format(seed=seed) for name in given.sets for seed in range(given.seeds)):
        if not Path(path).is_file():
            parser.error(f"no set '{path}', and --seeds asks for {given.seeds}")
    real = prism.load(given.store.path, output_format="TCHW", normalise=False)
    labels, new = range(len(real.classes)), of_all(real)
    memories = {"nothing": lambda seed: None, "all at once": lambda seed: None, "every clip": lambda seed: new}
    memories |= {f"pixels {size}": lambda seed, size=size: of_pixels(real, size) for size in given.pixels}
    memories |= {name: lambda seed, name=name: of_set(Path(name.format(seed=seed))) for name in given.sets}
    print("| memory | bytes of a class | clips | accuracy, % | forgetting |", "|---|---:|---:|---|---|", sep="\n")
    rows = []
    for name, memory_of in memories.items():
        ends, lost, old = [], [], None
        for seed in range(given.seeds):
            random.seed(seed)
            torch.manual_seed(seed)
            order, old = random.sample(labels, len(labels)), memory_of(seed)
            together = len(order) if name == "all at once" else CLASSES_OF_A_TASK
            tasks = [order[at : at + together] for at in range(0, len(order), together)]
            *before, end = learn(given, tasks, new, old)
            ends.append(fmean(end))
            bests = [max(row[task] for row in before[task:]) for task in range(len(before))]
            lost.append(fmean(bests) - fmean(end[: len(bests)]) if bests else 0.0)
        num_bytes, num_clips = old[:2] if old else (0, 0)
        means = [
            f"{fmean(some):.1f} ± {stdev(some) / math.sqrt(len(some)):.1f} ({len(some)})" for some in (ends, lost)
        ]
        print(f"| {name} | {num_bytes:,.0f} | {num_clips:.3g} | {' | '.join(means)} |", flush=True)
        scores = {"accuracy": [round(end, 3) for end in ends], "forgetting": [round(one, 3) for one in lost]}
        rows.append({"name": name, "bytes": num_bytes, "clips": num_clips, **scores})
    if given.output:
        given.output.write_text(json.dumps({"rows": rows, "provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
