"""A method of your own: a video is one still picture, and how bright it is in each frame.

    prism condense STORE -o OUT --method examples.own_method:Lit

or in Python: `prism.condense(store, method=Lit())`. Nothing moves in such videos but the light: what they teach, a
method with motion has to beat.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.storages import encoded
from prism.artifacts.options import STORAGES
from prism.artifacts.store import ClipStore
from prism.condensation.method import Method, Trainable, Videos
from prism.condensation.options import CondenseConfig
from prism.condensation.videos import mean_clips


class LitPictures(Videos):
    """Pictures (V, 1, 3, H, W), and the light (V, T, 1, 1, 1) that is added to their pixels in each frame."""

    def __init__(self, pictures: Tensor, num_frames: int, labels: Tensor, config: CondenseConfig) -> None:
        light = pictures.new_zeros(len(pictures), num_frames, 1, 1, 1)
        self.parts = {"pictures": pictures.requires_grad_(), "light": light.requires_grad_()}
        self.mask, self.labels = torch.ones_like(light[:, :, 0, 0, 0], dtype=torch.bool), labels
        self.trainable = [Trainable("relative_lr", config.relative_lr, [*self.parts.values()], is_relative=True)]

    def render(self, iteration: int = 0) -> Tensor:
        """Normalised clips (V, T, 3, H, W)."""
        return self.parts["pictures"] + self.parts["light"]

    def mean_keyframes(self) -> float:
        """The one picture."""
        return 1.0

    def state(self) -> dict[str, Tensor]:
        """Pictures and light."""
        return {name: part.detach() for name, part in self.parts.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Write them into those that are trained."""
        for name, part in self.state().items():
            part.copy_(state[name])

    def condensed(self, store: ClipStore, config: CondenseConfig, source: dict[str, Any]) -> CondensedSet:
        """The rendered frames, as the storage of the options keeps them."""
        frames = store.normalisation.invert(self.render().detach().cpu())
        encoding = encoded(STORAGES.make(config.storage, config), frames, self.mask.cpu())
        return CondensedSet(encoding, self.labels, store.classes, store.normalisation, store.flip, source)


class Lit(Method):
    """Each video starts as the mean frame of real clips, under even light."""

    fixed: ClassVar[dict[str, Any]] = {
        "init": "mean",
        "initial_keyframes": 0,
        "keyframe_scale": 1,
        "lr": 0.0,
        "insertion": "never",
    }

    def start(self, store: ClipStore, config: CondenseConfig, device: torch.device, classes: range) -> LitPictures:
        """`config.vpc` videos for each of these classes."""
        frames = store.normalisation.apply(mean_clips(store, config, classes))
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        return LitPictures(frames.mean(dim=1, keepdim=True).to(device), store.num_frames, labels, config)


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import prism
    from prism.testing import check_method, tiny_store

    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder) / "store")
        check_method(Lit(), store)
        print(prism.condense(store, method=Lit(), iterations=20, width=4, batch_real=4))
