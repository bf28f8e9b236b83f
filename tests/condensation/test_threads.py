"""What the telemetry says of many values, with any number of threads."""

import pytest
import torch

from prism.condensation.class_means import between_class_energy
from prism.condensation.curvature import largest_curvature
from prism.condensation.unseen import Likeness

MEANS, OTHERS = (torch.randn(50, 4096, generator=torch.Generator().manual_seed(seed)) for seed in range(2))


def curvature() -> float:
    tensors = [MEANS.clone()]
    return largest_curvature(tensors, lambda step: [tensors[0] * OTHERS], seed=0)


@pytest.mark.parametrize(
    "measure",
    [
        curvature,
        lambda: [float(between_class_energy(means)) for means in (MEANS, OTHERS, MEANS + OTHERS, MEANS * OTHERS)],
        lambda: Likeness.of(MEANS, OTHERS),
    ],
    ids=["curvature", "between_class", "likeness"],
)
def test_a_number_over_many_values_is_the_same_to_the_last_bit_with_any_number_of_threads(measure):
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(measure())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]
