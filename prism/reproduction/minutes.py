"""How long the steps of a plan will take on this machine, from the time in which it embeds a clip."""

import statistics
import time
from collections.abc import Hashable, Sequence
from pathlib import Path

import torch

from prism.artifacts.clips import to_model_input
from prism.artifacts.store import ClipStore
from prism.condensation.chunk import Chunk
from prism.condensation.options import METHODS, CondenseConfig
from prism.condensation.stream import BLOCK, NetworkStream, Numbers, clips_of_class
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import PROTOCOLS
from prism.machine.devices import deterministic, pick_device
from prism.machine.randomness import generator
from prism.networks.build import build_for
from prism.networks.initial import initialise
from prism.reproduction.plan import ScoreStep, SetStep
from prism.selection.options import SELECTIONS, SelectConfig

PASSES = 3
"""A clip that is differentiated takes as long as three that are embedded: the gradients of activations, and those
of weights, come beside the pass forward."""
TURNS = 3


class Minutes:
    """Estimates of steps in the order in which they are done; what one of them keeps, later ones do not pay again.

    Args:
        device: `auto`, `cpu` or `cuda`, where the networks run.
    """

    def __init__(self, device: str) -> None:
        self.device = pick_device(device)
        self._clip_seconds: dict[Hashable, float] = {}
        self._kept: set[Path] = set()

    def of(self, step: SetStep | ScoreStep, store: ClipStore) -> float:
        """The minutes that a step takes, without starting, reading and writing."""
        config = step.config
        num_clips = (
            self._clips_of_score(step, store) if isinstance(step, ScoreStep) else self._clips_of_set(step, store)
        )
        options = {"width": config.width, "hidden": getattr(config, "hidden", 0)}
        return num_clips * self.clip_seconds(store, config.model, options) / 60 if num_clips else 0.0

    def clip_seconds(self, store: ClipStore, model: str, options: dict[str, int]) -> float:
        """The seconds in which a network embeds one clip of a store, measured once for each network."""
        key = store.fingerprint, str(model), *options.items()
        if key not in self._clip_seconds:
            network = build_for(store, model, self.device, **options).eval()
            initialise(network, generator(0, "minutes"))
            chunk = Chunk.on(self.device)
            num = chunk.size
            frames = store.clips("train").frames[:1].expand(num, -1, -1, -1, -1)
            clips = to_model_input(frames.to(self.device), store.normalisation)
            with deterministic(self.device):
                turn = statistics.median(self._embed(network, clips, chunk) for _ in range(TURNS))
            # Networks are trained, and real clips embedded, side by side.
            side_by_side = torch.get_num_threads() if self.device.type == "cpu" else 1
            self._clip_seconds[key] = turn / num / side_by_side
        return self._clip_seconds[key]

    @torch.no_grad()
    def _embed(self, network: torch.nn.Module, clips: torch.Tensor, chunk: Chunk) -> float:
        started = time.perf_counter()
        sums = chunk.each(len(clips), lambda first, last: network(clips[first:last]).sum())
        torch.stack(sums).cpu()  # for which a GPU is waited
        return time.perf_counter() - started

    def _clips_of_set(self, step: SetStep, store: ClipStore) -> int:
        """The clips that making a set embeds, counted as those of one network."""
        config, num_train = step.config, len(store.positions("train"))
        if isinstance(config, SelectConfig):
            needs = SELECTIONS.make(config.method, config).needs_embeddings
            return num_train * (PASSES * config.epochs + 1) if needs else 0
        return self._real_clips(store, config) + PASSES * self._synthetic_clips(store, config)

    def _real_clips(self, store: ClipStore, config: CondenseConfig) -> int:
        """Those of all blocks of networks that no earlier step has kept."""
        files = NetworkStream(store, config).files(Numbers(config).needs(), self.device)
        new = {file.path for file in files.values()} - self._kept
        self._kept |= new
        return len(new) * BLOCK * int(store.counts("train").clamp(max=clips_of_class(store, config)).sum())

    def _synthetic_clips(self, store: ClipStore, config: CondenseConfig) -> int:
        method = METHODS.make(config.method, config)
        classes, preparation = len(store.classes), method.preparation(config)
        return classes * (preparation * config.vpc + config.iterations * config.vpc)

    def _clips_of_score(self, step: ScoreStep, store: ClipStore) -> int:
        """The clips that training and scoring its networks takes, counted as those of one."""
        config = step.config
        num = len(store.positions("train"))
        if step.made is not None:
            num = len(store.classes) * step.made.config.vpc
        is_by_protocol = isinstance(config, EvaluateConfig)
        split = PROTOCOLS[config.protocol].split(config.split) if is_by_protocol else config.split
        return config.seeds * (PASSES * config.views * config.epochs * num + len(store.positions(split)))


def in_words(minutes: float) -> str:
    """`about 40 min`, `about 3 h 10 min`."""
    if minutes < 1:
        return "under a minute"
    hours, rest = divmod(round(minutes), 60)
    return f"about {hours} h {rest} min" if hours else f"about {rest} min"


def total(minutes: Sequence[float], device: torch.device) -> str:
    """The sentence on a whole plan."""
    words = in_words(sum(minutes)).capitalize()
    return f"{words} on this {device.type.upper()}, by the time in which it embeds a clip."
