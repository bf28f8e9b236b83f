"""Static images and dynamic memories: the method of Wang et al. (arXiv 2312.00362)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from prism.artifacts import STORAGES
from prism.artifacts.clips import as_pixels
from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.encodings.static_dynamic import MEMORIES, StaticDynamicEncoding, combine, hallucinate
from prism.artifacts.store import ClipStore
from prism.condensation import Settings
from prism.condensation.videos import Encode, Method, Trainable, Videos, check_storable
from prism.machine.devices import send
from prism.machine.randomness import generator
from prism.networks.initial import initialise


class StaticDynamicVideos(Videos):
    """Static images and dynamic memories, two of each for every video, joined by a hallucinator.

    First the images are trained, matched with held frames of real clips. Then they are fixed, and memories and
    hallucinator are matched with whole clips; each iteration draws one image and one memory for every video.
    """

    def __init__(
        self, parts: dict[str, Tensor], labels: Tensor, method: "StaticDynamic", store: ClipStore, config: Settings
    ) -> None:
        super().__init__(parts, labels, store.num_frames, config)
        self.static, self.dynamic, self.weight, self.bias = parts.values()
        self.seed, self.preparation = config.seed, method.static_iterations
        self.normalisation, self.storage = store.normalisation, STORAGES.make(config.storage, config)
        self.mean_keyframes = float(MEMORIES)
        self.trainable = [
            Trainable("static_lr", method.static_lr, [self.static]),
            Trainable("dynamic_lr", method.dynamic_lr, [self.dynamic]),
            Trainable("hallucinator_lr", method.hallucinator_lr, [self.weight, self.bias]),
        ]

    def render(self, iteration: int) -> Tensor:
        """Normalised clips (2V, T, C, H, W) of all static images in preparation, then (V, …), one draw a video."""
        if iteration < self.preparation:
            return self.static.unsqueeze(1).expand(-1, self.dynamic.shape[1], -1, -1, -1)
        drawn = combine(len(self.mask), generator(self.seed, "recombine", iteration))
        static, dynamic = (send(positions, self.mask.device) for positions in drawn)
        return hallucinate(self.static[static].detach(), self.dynamic[dynamic], self.weight, self.bias)

    @torch.no_grad()
    def stored(self, encode: Encode, iteration: int) -> StaticDynamicEncoding:
        static, dynamic, weight, bias = (part.cpu() for part in self.state().values())
        pixels, number_format = self.normalisation.invert(static), self.storage.number_format
        assert number_format is not None
        stored = self.storage.largest, number_format
        check_storable("a static image", pixels, *stored, self.trainable[:1])
        check_storable("a dynamic memory", dynamic, *stored, self.trainable[1:])
        weights = torch.cat([weight.flatten(), bias])
        check_storable("the hallucinator", weights, Float32.largest, "float32", self.trainable[2:])
        return StaticDynamicEncoding.of_parts(pixels, dynamic, weight, bias, number_format)


@dataclass(frozen=True)
class StaticDynamic(Method):
    """Static images and dynamic memories (Wang et al., arXiv 2312.00362). One hallucinator serves all classes."""

    static_iterations: int = Settings.static_iterations
    static_lr: float = Settings.static_lr
    dynamic_lr: float = Settings.dynamic_lr
    hallucinator_lr: float = Settings.hallucinator_lr

    fixed: ClassVar[dict[str, Any]] = {
        "init": "real",
        "initial_keyframes": 2,
        "keyframe_scale": 1,
        "fully_learnable": False,
        "lr": 0.0,
        "relative_lr": Settings.relative_lr,
        "decay": "constant",
        "insertion": "never",
    }
    independent_classes: ClassVar[bool] = False
    other_rates: ClassVar[str] = "a --static-lr and --dynamic-lr ten times as large or small"

    def check(self, store: ClipStore, config: Settings) -> None:
        """Refuse `yuv420` and `h264`, which store pictures: memories are none."""
        if STORAGES.make(config.storage, config).number_format is None:
            promise = "float32, float16 or uint8 with method static-dynamic, whose memories are no pictures"
            raise config.refusal("storage", promise)

    def preparation(self) -> int:
        return self.static_iterations

    def start(self, store: ClipStore, config: Settings, device: torch.device, classes: range) -> Videos:
        """Random real frames, memories of Gaussian noise, and a hallucinator with PyTorch's default values."""
        frames = _random_frames(store, MEMORIES * config.vpc, config.seed)
        noise = (len(frames), store.num_frames, *store.size)
        dynamic = torch.randn(noise, generator=generator(config.seed, "memories"))
        hallucinator = nn.Conv3d(4, 3, kernel_size=3, padding=1, device="meta").to_empty(device="cpu")
        initialise(hallucinator, generator(config.seed, "hallucinator"))
        parts = {"static": store.normalisation.apply(as_pixels(frames)), "dynamic": dynamic}
        parts |= {name: values.detach() for name, values in hallucinator.named_parameters()}
        labels = torch.arange(len(store.classes)).repeat_interleave(config.vpc)
        parts = {name: part.to(device) for name, part in parts.items()}
        return StaticDynamicVideos(parts, labels, self, store, config)


def _random_frames(store: ClipStore, num: int, seed: int) -> Tensor:
    """`num` training frames (C·num, 3, H, W) of each class, from different clips, or else far apart in a clip."""
    chosen, counts = store.sample(num, generator(seed, "videos")), store.counts("train").clamp(max=num)[:, None]
    turn, within = torch.arange(num) // counts, torch.arange(num) % counts
    turns = (num + counts - 1) // counts
    place = (counts.cumsum(0) - counts + within).flatten()
    times = torch.randint(store.num_frames, (len(place),), generator=generator(seed, "video frames"))
    # Of a clip that is taken several times the first frame is drawn and sets the others, so that all differ.
    first = torch.arange(len(place)).view_as(turn).gather(1, within)
    times = (times[first] + turn * store.num_frames // turns) % store.num_frames
    return store.clips("train").frames[chosen[place], times.flatten()]
