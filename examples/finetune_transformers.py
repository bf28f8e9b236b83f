"""A video transformer of the library `transformers`, trained from random values on exported sets.

    pip install transformers
    prism export runs/prism-0.safetensors -o runs/prism-0 --to tensors
    python -m examples.finetune_transformers runs/store 'runs/prism-{seed}'

The export is all that training reads of a set. The real test clips of the store judge the network. Nothing is
downloaded. The last row is trained on all real clips, in as many steps.
"""

import json
import math
from argparse import ArgumentParser
from pathlib import Path
from statistics import fmean, stdev

import torch
from safetensors import safe_open
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset
from transformers import VideoMAEConfig, VideoMAEForVideoClassification

import prism
from prism.machine.provenance import provenance

BATCH, RATE = 10, 1e-3


def exported(folder: Path) -> Dataset:
    """The videos (T, C, H, W) of `prism export --to tensors`, normalised as the file says, and their labels."""
    with safe_open(folder / "clips.safetensors", "pt") as file:
        said = json.loads(file.metadata()["prism"])
        mean, std = (torch.tensor(said[key]).view(3, 1, 1) for key in ("mean", "std"))
        return TensorDataset((file.get_tensor("clips") - mean) / std, file.get_tensor("labels"))


def trained(store: prism.ClipStore, videos: Dataset, steps: int) -> VideoMAEForVideoClassification:
    """A VideoMAE a thousandth as large as the published one, trained with a rate that warms up and falls."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    shape = {"image_size": store.size, "patch_size": 8, "num_frames": store.num_frames, "tubelet_size": 2}
    model = VideoMAEForVideoClassification(VideoMAEConfig(num_labels=len(store.classes), **shape, **sizes))
    optimiser = torch.optim.AdamW(model.train().parameters(), RATE)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for shown, labels in DataLoader(videos, BATCH, sampler=RandomSampler(videos, num_samples=BATCH * steps)):
        shown = shown.flip(-1) if store.flip and torch.rand(()) < 0.5 else shown
        loss = functional.cross_entropy(model(pixel_values=shown).logits, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: VideoMAEForVideoClassification, clips: prism.VideoDataset) -> float:
    """The share of real clips, in % to a tenth, whose class the model names."""
    guesses = [model(pixel_values=shown).logits.argmax(dim=1) for shown, _ in DataLoader(clips, 32)]
    return round(100 * float((torch.cat(guesses) == torch.tensor(clips.targets)).float().mean()), 1)


def main() -> None:
    """Print a row for every export."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("store", type=prism.ClipStore.open)
    parser.add_argument("exports", nargs="*", help="folders; {seed} in a name stands for the number of the seed")
    parser.add_argument("--seeds", type=int, default=5, help="two or more: networks, and sets where they have one")
    parser.add_argument("--steps", type=int, default=200, help="of ten clips")
    parser.add_argument("--output", type=Path, help="JSON file for the scores of every seed")
    given = parser.parse_args()
    if given.seeds < 2:
        parser.error(f"--seeds is {given.seeds}, but an error needs two or more")
    real, judges = (prism.load(given.store.path, split=split, output_format="TCHW") for split in ("train", "test"))
    print("| trained on | videos | accuracy, % |", "|---|---:|---|", sep="\n")
    rows = []
    for name in (*given.exports, "all real clips"):
        scores, videos = [], real
        for seed in range(given.seeds):
            torch.manual_seed(seed)
            videos = real if name == "all real clips" else exported(Path(name.format(seed=seed)))
            scores.append(accuracy(trained(given.store, videos, given.steps), judges))
        mean = f"{fmean(scores):.1f} ± {stdev(scores) / math.sqrt(len(scores)):.1f} ({len(scores)})"
        print(f"| {name} | {len(videos)} | {mean} |", flush=True)
        rows.append({"name": name, "videos": len(videos), "accuracy": scores})
    if given.output:
        given.output.write_text(json.dumps({"rows": rows, "provenance": provenance()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
