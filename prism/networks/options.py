"""The networks by name, and the schedule by which one is trained."""

from dataclasses import dataclass

from prism.parts import Parts

NETWORKS = Parts(
    "network",
    "prism.networks.network:Network",
    {
        "convnet3d": "prism.networks.convnet3d:ConvNet3D",
        "cnn-gru": "prism.networks.recurrent:CnnGru",
        "cnn-lstm": "prism.networks.recurrent:CnnLstm",
        "r2plus1d-18": "prism.networks.residual:R2Plus1D18",
    },
    as_class=True,
)


@dataclass(frozen=True)
class Schedule:
    """Schedule of the training of a network: options of `prism evaluate`, whose help says what each does."""

    epochs: int
    batch_size: int
    lr: float = 0.01
    shift: float = 0.0
    max_grad_norm: float = 0.0

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0. A single epoch has no second half."""
        return self.lr * (1 if epoch < max(1, self.epochs // 2) else 0.1)
