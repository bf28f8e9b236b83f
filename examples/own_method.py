"""A custom method: a video is one still picture, and how bright it is in each frame.

    prism condense STORE -o OUT --method examples.own_method:Lit

or in Python: `prism.condense(store, method=Lit())`. Nothing moves in such videos but the light, so a
method with motion has to beat them.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from prism.artifacts.store import ClipStore
from prism.condensation import Settings
from prism.condensation.videos import Method, Videos, mean_clips


class LitPictures(Videos):
    """Pictures (V, 1, 3, H, W), and the light (V, T, 1, 1, 1) that is added to their pixels in each frame."""

    def render(self, iteration: int) -> Tensor:
        """Normalised clips (V, T, 3, H, W)."""
        return self.parts["picture"] + self.parts["light"]


class Lit(Method):
    """Each video starts as the mean frame of real clips, under even light."""

    fixed: ClassVar[dict[str, Any]] = {
        "init": "mean",
        "initial_keyframes": 0,
        "keyframe_scale": 1,
        "insertion": "never",
    }

    def start(self, store: ClipStore, config: Settings, device: torch.device, classes: range) -> LitPictures:
        """`config.vpc` videos for each of these classes."""
        frames = store.normalisation.apply(mean_clips(store, config, classes)).to(device)
        parts = {"picture": frames.mean(dim=1, keepdim=True), "light": torch.zeros_like(frames[:, :, :1, :1, :1])}
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        return LitPictures(parts, labels, store.num_frames, config)


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import prism
    from prism.testing import check_method, tiny_store

    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder) / "store")
        check_method(Lit(), store)
        print(prism.condense(store, method=Lit(), iterations=20, width=4, batch_real=4))
