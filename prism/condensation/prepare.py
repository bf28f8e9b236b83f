"""Preparation of a run: its parts, its network, trained networks, class means and learning rates."""

import math
import os
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts import STORAGES
from prism.artifacts.cache import KEPT_BYTES, CacheFile
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.keyframes import reduce
from prism.artifacts.store import ClipStore
from prism.condensation.given import given_set, recorded_options
from prism.condensation.loop import Condensation
from prism.condensation.objectives import HeldOutNetworks, MatchLoss, Objective, largest_curvature
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig
from prism.condensation.random_networks import BLOCK, RandomNetworks
from prism.condensation.rules import Conflict, InsertionRule, InsertionState
from prism.condensation.videos import KeyFrameVideos, Method, Trainable, Videos, check_storable
from prism.errors import AGAIN, ConfigError, DivergedError
from prism.machine.devices import deterministic, free_bytes, give_back_freed_memory, pick_device
from prism.machine.executors import completed, computing, stoppable
from prism.machine.progress import Advance, no_progress, note, progress_bar
from prism.machine.provenance import versions
from prism.machine.randomness import generator
from prism.machine.run import Run
from prism.networks.build import allocate, build_for
from prism.networks.feed import Feed
from prism.networks.network import Network, check_output
from prism.networks.options import NETWORKS
from prism.networks.trained import trained_network
from prism.parts import Parts

VIDEO_COPIES = 5
"""Memory of a run in float32 copies of its clips (clips, parts, gradients, momentum), within a factor of two."""
HELD_OUT_BATCH = 64
"""Largest number of real clips of each class over which held-out networks take class means."""
STEP_NUMBERS = ("kind", "iteration", "loss", "keyframes", "lr", "seconds")
"""Keys of the telemetry's own numbers of every iteration, which an objective must not use."""
PROBED = 10
"""Largest number of classes on which the curvature is measured, where classes are independent."""


class Setup:
    """Parts of a run on one device, made once for a store; a ConfigError where an option or part does not fit."""

    def __init__(self, store: ClipStore, config: CondenseConfig) -> None:
        self.store, self.config = store, config
        store.require_vpc(config.vpc, "condense.vpc")
        self.network = build_for(store, config.model, "meta", width=config.width)
        self.feed: Feed | None = None
        self.all_trained: dict[int, Network] = {}
        self.method: Method = METHODS.make(config.method, config)
        self.objective: Objective = OBJECTIVES.make(config.objective, config)
        self.rule: InsertionRule = RULES.make(config.insertion, config)
        self.storage: Encoding = STORAGES.make(config.storage, config)
        self.reads, self.given = [store.path], given_set(store, config)
        if self.given is not None:
            # A worker may run in another folder.
            self.config = config = replace(config, init=str(Path(config.init).absolute()))
            self.reads.append(Path(config.init))
        self.method.check(store, config)
        self.example: Encoding = self.method.example(store, config, self.encode)
        parts = [self.method, self.objective] + [self.rule] * self.rule.inserts
        self.independent_classes = config.placement != "budget" and all(part.independent_classes for part in parts)
        names = OBJECTIVES.name_of(config.objective), NETWORKS.name_of(config.model)
        self.scoring = "objective {} with network {}".format(*names)

    @cached_property
    def source(self) -> dict[str, Any]:
        """The record of how the set is made, which the set holds, without the device."""
        options = recorded_options(self.config, self.given)
        made = {"method": options["method"], "config": options, "versions": versions()}
        given = {"init": self.given.fingerprint} if self.given else {}
        return made | {"store": self.store.fingerprint} | given

    def encode(
        self, frames: Tensor, mask: Tensor, scale: int = 1, trainable: Collection[Trainable] = ()
    ) -> Encoding:
        """Normalised key-frames, encoded in the storage of the options: an `Encode`."""
        pixels, mask = self.store.normalisation.invert(frames.detach().cpu()), mask.cpu()
        check_storable("a key-frame", pixels[mask], self.storage.largest, self.config.storage, list(trainable))
        return self.storage.with_frames(pixels, mask, scale)

    def networks(self, device: torch.device, classes: range | None = None) -> RandomNetworks:
        """The networks of all iterations; runs that differ in `seed` have the same networks in other orders.

        Each stage of a method (single frames first, then whole clips) orders its blocks of networks by itself.
        """
        first = self.method.preparation()

        def order(stage: str, length: int) -> list[int]:
            draw = generator(self.config.seed, "order", stage)
            return torch.randperm(math.ceil(max(1, length) / BLOCK), generator=draw).tolist()

        prepared, moved = order("preparation", first), order("iterations", self.config.iterations)

        def number_of(iteration: int) -> int:
            blocks, at = (prepared, iteration) if iteration < first else (moved, iteration - first)
            # Numbers are drawn ahead, beyond the last iteration too: they wrap around, and nothing reads them.
            return blocks[at // BLOCK % len(blocks)] * BLOCK + at % BLOCK

        return self.named_networks(device, classes, number_of=number_of, shows_stills=lambda i: i < first)

    def named_networks(
        self, device: torch.device, classes: range | None = None, config: CondenseConfig | None = None, **how: Any
    ) -> RandomNetworks:
        """Networks whose random streams have the `name` in `how`; the store keeps their class means."""
        store, config, network = self.store, config or self.config, self.network
        if self.feed is None:
            allocate(network, device)
            self.feed = Feed(store.clips("train").frames, device)
        classes, trained = classes or range(len(store.classes)), partial(self.trained, device)
        # Those of a custom network are not kept, as its code may change under the same name.
        cache = partial(CacheFile.of, store, "means", device=device) if NETWORKS.is_builtin(config.model) else None
        return RandomNetworks(network, store, self.feed, config, classes, trained, cache, **how)

    def trained(self, device: torch.device, number: int, advance: Advance = no_progress) -> Network:
        """A network that was trained on all training clips; the store keeps its values."""
        if not (number in range(self.objective.trained) and self.objective.epochs):
            has = f"trained = {self.objective.trained} and epochs = {self.objective.epochs}"
            raise ConfigError(f"the objective reads trained network {number}, but has {has}. Set both.")
        if number not in self.all_trained:
            # Another network seed shares no trained network, so that sets of several seeds are independent.
            seed = self.config.network_seed * self.objective.trained + number
            how = {"width": self.config.width, "epochs": self.objective.epochs, "seed": seed, "advance": advance}
            self.all_trained[number] = trained_network(self.store, self.config.model, device, **how)
        return self.all_trained[number]

    def held_out(self, run: Run) -> HeldOutNetworks:
        """The held-out networks, with which no run trains, and their class means."""
        config = replace(self.config, batch_real=HELD_OUT_BATCH, network_seed=0)
        networks = self.named_networks(pick_device(run.device), config=config, name="unseen", block=1)
        blocks = {(number, False) for number in range(HeldOutNetworks.NUM)}
        precompute_class_means(networks, blocks, replace(run, progress=False))
        return HeldOutNetworks(networks)

    def precompute(self, run: Run) -> None:
        """Compute the trained networks and class means that the objective reads; later runs share them."""
        num, epochs, device = self.objective.trained, self.objective.epochs, pick_device(run.device)
        if num and self.config.iterations:
            bar = progress_bar("Training networks", num * epochs, "epochs", enabled=run.progress)
            said = f"stopped; networks that are trained are kept. {AGAIN}"
            with stoppable(said), bar as advance, computing(run, num) as executor:
                train = partial(self.trained, device, advance=advance)
                if run.executor is not None:
                    train = partial(_train, self.store, self.config, run.device)
                for _ in completed(executor, train, range(num)):
                    advance(epochs if run.executor else 0)
        if self.objective.reads_class_means:
            networks = self.networks(device)
            iterations = range(self.method.preparation() + self.config.iterations)
            blocks = {(networks.number_of(i) // BLOCK, networks.shows_stills(i)) for i in iterations}
            precompute_class_means(networks, blocks, run)

    def begin(self, device: torch.device, classes: range | None = None) -> Condensation:
        """A condensation of some classes, all by default, whose learning rates are not measured yet."""
        networks = self.networks(device, classes)
        videos = self._videos(device, networks.classes)
        labels = [label for label in networks.classes for _ in range(self.config.vpc)]
        made, shape = partial(_require, METHODS, self.config.method), (len(labels), self.store.num_frames)
        wanted = f"the labels {labels}, one class after the other"
        made(wanted, videos.labels, _is_like(videos.labels, shape[:1]) and videos.labels.tolist() == labels)
        made(f"a mask (V, T) = {shape}", videos.mask, _is_like(videos.mask, shape))
        return Condensation(self.method, videos, networks, self.objective, self.rule)

    def _videos(self, device: torch.device, classes: range) -> Videos:
        videos = self.method.start(self.store, self.config, device, classes)
        _require(METHODS, self.config.method, "Videos from start", videos, isinstance(videos, Videos))
        if self.storage.coarse_colour:
            videos.deviation = torch.tensor(self.store.normalisation.std, device=device).view(3, 1, 1)
        if self.given is not None:
            own = torch.arange(classes.start * self.config.vpc, classes.stop * self.config.vpc)
            given = self.given
            if isinstance(videos, KeyFrameVideos) and given.encoding.scale == videos.scale:
                given = given.unenlarged()
            videos.start_as(self.store.normalisation.apply(given.render(own)).to(device))
        return videos

    def measure_rates(self, loop: Condensation) -> None:
        """Set the learning rates of a condensation, after a check of its custom parts."""
        given = [(METHODS, "method"), (OBJECTIVES, "objective"), (RULES, "insertion"), (NETWORKS, "model")]
        if not all(kind.is_builtin(getattr(self.config, option)) for kind, option in given):
            check_first_use(loop)
        if loop.num_iterations and any(part.is_relative for part in loop.videos.trainable):
            unit = self.unit_rate(loop)
            loop.rates = [part.lr * unit if part.is_relative else part.lr for part in loop.videos.trainable]

    def start(self, device: torch.device, classes: range | None = None) -> Condensation:
        """A condensation that is ready for its first iteration."""
        loop = self.begin(device, classes)
        self.measure_rates(loop)
        return loop

    def unit_rate(self, loop: Condensation) -> float:
        """The learning rate 1/λ at the start, on the first `PROBED` classes, or all if they are dependent."""
        every, first = len(self.store.classes), loop.preparation
        probed = loop.networks.of_classes(range(min(PROBED, every) if self.independent_classes else every))
        videos = self._videos(probed.device, probed.classes)
        tensors = [tensor for part in videos.trainable for tensor in part.tensors]

        def gradients(step: int) -> list[Tensor]:
            # The last probe left its freed memory in pieces, too small to be used again.
            give_back_freed_memory()
            with torch.enable_grad(), deterministic(probed.device):
                clips, network, chunk = videos.render(first), probed.draw(first + step), loop.chunk
                matched = self.objective.match(network, self.objective.real(probed, first + step), clips, chunk)
                found = torch.autograd.grad(clips, tensors, matched.gradients, allow_unused=True)
            return [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True)]

        curvature = largest_curvature(tensors, gradients, self.config.seed)
        give_back_freed_memory()
        if not (math.isfinite(curvature) and curvature):
            said = "the loss does not depend on the videos" if curvature == 0 else "the gradients are not finite"
            hint = f"Look at {self.scoring}; a larger --width may help."
            raise DivergedError(f"{said} before the first iteration. {hint}")
        return 1 / curvature


def _of_worker(store: ClipStore, config: Any) -> Setup:
    """The parts of a run for a worker that computes networks; `init` is default, as these need no given set."""
    return Setup(store, replace(config, init=CondenseConfig.init))


def _train(store: ClipStore, config: CondenseConfig, device: str, number: int) -> None:
    _of_worker(store, config).trained(pick_device(device), number)


def scored(condensed: CondensedSet, held_out: HeldOutNetworks) -> CondensedSet:
    """A finished set with the held-out score of its stored clips in its record."""
    # One clip of a video that stands for several would leave out most of what the set stores.
    draws = [generator(0, "unseen", n) for n in range(4)] if condensed.is_random else [None]
    clips = torch.stack([condensed.render(generator=draw) for draw in draws], dim=1).flatten(0, 1)
    clips = condensed.normalisation.apply(clips).to(held_out.networks.device)
    return replace(condensed, source=condensed.source | {"unseen": asdict(held_out.score(clips))})


def check_first_use(loop: Condensation) -> MatchLoss:
    """The losses of iteration 0, without a step; a ConfigError where a part returns the wrong type or shape."""
    store, config, classes = loop.networks.store, loop.config, loop.networks.classes
    network, clips, shape = loop.networks.draw(0), loop.render(), (store.num_frames, 3, *store.size)
    wanted = f"finite clips (n, {str(shape)[1:]}, as many of each of {len(classes)} classes, with gradient"
    is_whole = isinstance(clips, Tensor) and clips.requires_grad and clips.shape[1:] == shape
    is_whole = is_whole and bool(clips.isfinite().all())
    _require(METHODS, config.method, wanted, clips, is_whole and len(clips) > 0 and not len(clips) % len(classes))
    some, before = clips[:1].detach().transpose(1, 2), clips.detach().clone()
    check_output(network, "embed", network.embed(some), some)
    found = loop.objective.match(network, loop.objective.real(loop.networks, 0), clips, loop.chunk)
    gives = partial(_require, OBJECTIVES, config.objective)
    gives("a MatchLoss", found, isinstance(found, MatchLoss))
    gives("its losses without a change of the clips, as of a clone", clips, torch.equal(clips, before))
    gives(f"losses (C,) = {(len(classes),)}", found.losses, _is_like(found.losses, (len(classes),)))
    wanted = f"recorded numbers, none of them called {', '.join(STEP_NUMBERS)}"
    are_numbers = all(isinstance(one, int | float | None) or _is_like(one, ()) for one in found.recorded.values())
    gives(wanted, found.recorded, are_numbers and not found.recorded.keys() & {*STEP_NUMBERS})
    wanted = f"gradients {tuple(clips.shape)} of {clips.dtype}"
    gives(wanted, found.gradients, _is_like(found.gradients, clips.shape, clips.dtype))
    if loop.rule.inserts:
        gradients, mask = reduce(found.gradients, config.keyframe_scale), loop.videos.mask
        conflict = Conflict.measure(gradients, mask)
        state = InsertionState(gradients, mask.clone(), conflict, 0, 1, generator(0, "try"))
        proposed, wanted = loop.rule.propose(state), f"(V, T) = {tuple(mask.shape)} booleans"
        _require(RULES, config.insertion, wanted, proposed, _is_like(proposed, mask.shape, torch.bool))
    return found


def _require(parts: Parts, part: Any, wanted: str, found: Any, is_kept: bool) -> None:
    if not is_kept:
        is_tensor = isinstance(found, Tensor)
        got = f"{tuple(found.shape)} of {found.dtype}" if is_tensor else f"a {type(found).__name__}"
        name = f"{parts.kind} '{parts.name_of(part)}'"
        raise ConfigError(f"{name} must give {wanted}, got {got}. docs/extending.md shows one.")


def _is_like(value: Any, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> bool:
    return isinstance(value, Tensor) and value.shape == shape and value.dtype == (dtype or value.dtype)


def precompute_class_means(networks: RandomNetworks, blocks: Collection[tuple[int, bool]], run: Run) -> None:
    """Compute and keep the missing class means of blocks of networks, here or by an executor.

    An interrupted call keeps finished blocks. Where class means cannot be kept, each iteration computes its own.
    """
    files = {need: networks.kept(*need) for need in sorted(blocks)}
    if None in files.values() or not os.access(networks.store.place, os.W_OK):
        return
    block, total = networks.block, networks.block * len(files)
    num_bytes = 4 * total * len(networks.store.classes) * networks.network.embed_dim
    said = f"The class means of {total:,} networks take {num_bytes / 2**20:,.1f} MiB"
    if num_bytes > KEPT_BYTES:
        return note(f"{said}, too much to be kept. They are computed as they are needed.", enabled=run.progress)
    missing = [need for need, file in files.items() if file.load() is None]
    if not missing:
        return
    note(f"{said} beside the clips. Every later run on these clips shares them.", enabled=run.progress)
    keep: Callable[[tuple[int, bool]], str] = partial(_keep, networks)
    if run.executor is not None:
        keep = partial(_keep_elsewhere, networks.store, networks.config, run.device, networks.name, block)
    done = total - block * len(missing)
    stopped = f"stopped; class means that are done are kept. {AGAIN}"
    with stoppable(stopped), progress_bar("Real clips", total, "networks", enabled=run.progress, done=done) as bar:
        for need, name in completed(run.executor, keep, missing):
            # A worker with another device gives its files other names.
            networks.elsewhere[need] = replace(files[need], path=files[need].path.with_name(name))
            bar(block)


def _keep(networks: RandomNetworks, need: tuple[int, bool]) -> str:
    (block, still), file = need, networks.kept(*need)
    if file.load() is None:
        numbers = range(block * networks.block, (block + 1) * networks.block)
        file.save(torch.stack([networks.compute_means(number, still) for number in numbers]))
    return file.path.name


def _keep_elsewhere(
    store: ClipStore, config: Any, device: str, name: str, block: int, need: tuple[int, bool]
) -> str:
    return _keep(_of_worker(store, config).named_networks(pick_device(device), name=name, block=block), need)


def check_memory(store: ClipStore, config: CondenseConfig, device: torch.device, num_classes: int) -> None:
    """Refuse videos that would take more than twice the free memory, before anything long is computed."""
    give_back_freed_memory()
    needs, free = VIDEO_COPIES * num_classes * config.vpc * 4 * store.clip_bytes, free_bytes(device)
    if free is not None and needs > 2 * free:
        taken, left = (f"{num / 2**30:,.1f} GiB" for num in (needs, free))
        said = f"{config.vpc} videos for each of {num_classes} classes take about {taken} with their gradients"
        said += f", and {device.type} has {left} free"
        raise ConfigError(f"{said}. Pass a smaller --vpc, or ingest smaller clips.")
