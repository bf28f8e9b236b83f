"""A custom insertion rule: a frame is freed where its gradient is large, not where it points elsewhere.

    prism condense STORE -o OUT --initial-keyframes 2 --insertion examples.own_rule:LargeGradient
    prism condense STORE -o OUT --initial-keyframes 2 --insertion 'examples.own_rule:LargeGradient(times=2.0)'

or in Python: `prism.condense(store, initial_keyframes=2, insertion=LargeGradient(times=2.0))`.
"""

from dataclasses import dataclass

from torch import Tensor

from prism.condensation.rules import InsertionRule, InsertionState


@dataclass(frozen=True)
class LargeGradient(InsertionRule):
    """Frames whose gradient has more than `times` the mean energy of their video's frames."""

    times: float = 1.5

    def propose(self, state: InsertionState) -> Tensor:
        energy = state.gradients.flatten(2).square().sum(dim=2)
        return energy > self.times * energy.mean(dim=1, keepdim=True)


if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    import prism
    from prism.testing import check_rule, tiny_store

    with tempfile.TemporaryDirectory() as folder:
        store = tiny_store(Path(folder) / "store")
        rule = LargeGradient()
        check_rule(rule, store)
        print(prism.condense(store, initial_keyframes=2, insertion=rule, iterations=20, width=4, batch_real=4))
