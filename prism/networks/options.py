"""The networks by name, and the schedule by which one is trained."""

from dataclasses import dataclass

from prism.parts import Parts

NETWORKS = Parts(
    "network",
    {
        "convnet3d": "prism.networks.convnet3d:ConvNet3D",
        "cnn-gru": "prism.networks.recurrent:CnnGru",
        "cnn-lstm": "prism.networks.recurrent:CnnLstm",
        "r2plus1d-18": "prism.networks.residual:R2Plus1D18",
    },
)


@dataclass(frozen=True)
class Schedule:
    """Schedule of the training of a network.

    Attributes:
        epochs: passes over the training clips; the learning rate drops to a tenth halfway.
        batch_size: clips of a step.
        lr: learning rate of SGD.
        shift: largest random shift of a clip in time, down and across, as a share of its extent.
        max_grad_norm: a longer gradient of a step is shortened to this norm, over all weights; 0 for no limit.
        stratified: every step holds each class in its share, as far as whole clips go, in place of a random draw.
    """

    epochs: int
    batch_size: int
    lr: float = 0.01
    shift: float = 0.0
    max_grad_norm: float = 0.0
    stratified: bool = False

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0. A single epoch has no second half."""
        return self.lr * (1 if epoch < max(1, self.epochs // 2) else 0.1)
