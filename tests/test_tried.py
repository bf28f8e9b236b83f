"""What was tried beside the default, in results/objectives.py: its mathematics, and the promises of a part."""

import sys
from pathlib import Path

import numpy as np
import torch
from settings import PAPER, started

from prism import testing
from prism.condensation.objectives import DistributionMatching
from prism.condensation.random_networks import between_class_energy

sys.path.insert(0, str(Path(__file__).parent.parent / "results"))
import objectives
from objectives import Differences

TINY = PAPER | {"width": 4, "batch_real": 2, "iterations": 4}


def test_differences_keep_the_promises_of_an_objective(tiny, monkeypatch):
    # Between two key-frames all differences are equal, so that a pooling has no gradient there.
    monkeypatch.setattr(testing, "TINY", testing.TINY | {"initial_keyframes": 0, "insertion": "never"})
    testing.check_objective(Differences(), tiny)


def test_differences_are_matched_by_their_class_means_in_the_energy_of_those_of_the_clips(store):
    objective = Differences(weight=0.5)
    run = started(store, **(TINY | {"objective": objective, "vpc": 2}))
    clips, network, real = run.render().detach(), run.networks.draw(3), objective.real(run.networks, 3)
    found = objective.match(network, real, clips, run.chunk)

    def means_of(shown: torch.Tensor) -> torch.Tensor:
        moved = torch.cat([torch.zeros_like(shown[:, :, :1]), shown[:, :, 1:] - shown[:, :, :-1]], dim=2)
        return network.embed(moved).mean(dim=0)

    means, moved = run.networks.class_means(3), torch.stack([*map(means_of, run.networks.real_clips(3))])
    ours = torch.stack([means_of(some.transpose(1, 2)) for some in clips.split(2)])
    factor = 0.5 * between_class_energy(means) / between_class_energy(moved)
    plain = DistributionMatching().match(network, means, clips, run.chunk).losses
    expected = plain + factor * (moved - ours).square().sum(dim=1)
    torch.testing.assert_close(found.losses, expected, rtol=1e-4, atol=0)


def test_in_still_clips_nothing_but_the_class_means_is_matched(make_store):
    still = np.random.default_rng(0).integers(0, 256, (14, 1, 3, 48, 48), np.uint8).repeat(8, axis=1)
    run = started(make_store(frames=still), **(TINY | {"objective": Differences(), "init": "real"}))
    network, clips = run.networks.draw(0), run.render().detach()
    found = Differences().match(network, Differences().real(run.networks, 0), clips, run.chunk)
    plain = DistributionMatching().match(network, run.networks.class_means(0), clips, run.chunk)
    torch.testing.assert_close(found.losses, plain.losses)
    assert found.gradients.isfinite().all()


def test_characteristic_functions_keep_the_promises_of_an_objective(tiny):
    testing.check_objective(objectives.CharacteristicFunctions(trained=1, epochs=1, frequencies=8), tiny)


def test_characteristic_functions_differ_by_amplitude_and_phase():
    one, other = torch.randn(2, 4, 9), torch.randn(2, 4, 9)
    a, b = torch.complex(*one), torch.complex(*other)
    turned = 2 * a.abs() * b.abs() * (1 - (a.angle() - b.angle()).cos())
    wanted = (0.3 * (a.abs() - b.abs()).square() + 0.7 * turned).sqrt().mean(dim=-1)
    torch.testing.assert_close(objectives.apart(one, other, 0.3), wanted, atol=1e-4, rtol=0)


def test_the_method_that_was_tried_keeps_its_promises_by_orthonormal_frequencies(tiny):
    testing.check_method(objectives.Frequencies(), tiny)
    basis = objectives.cosines(6, 6)
    torch.testing.assert_close(basis @ basis.T, torch.eye(6))
