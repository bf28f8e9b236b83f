"""The parts of results/objectives.py, which were tried beside the default."""

import sys
from pathlib import Path

import pytest
import torch

from prism import testing

sys.path.insert(0, str(Path(__file__).parent.parent / "results"))
import objectives


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return testing.tiny_store(tmp_path_factory.mktemp("tiny") / "store")


@pytest.mark.parametrize(
    "tried", [objectives.Differences(), objectives.CharacteristicFunctions(trained=1, epochs=1, frequencies=8)]
)
def test_a_tried_objective_keeps_the_promises_of_one(tiny, tried, monkeypatch):
    # Between two key-frames all differences are equal, so that a pooling has no gradient there.
    monkeypatch.setattr(testing, "TINY", testing.TINY | {"initial_keyframes": 0, "insertion": "never"})
    testing.check_objective(tried, tiny)


def test_the_tried_method_keeps_the_promises_of_one(tiny):
    testing.check_method(objectives.Frequencies(), tiny)


def test_all_frequencies_give_back_every_frame():
    basis = objectives.cosines(6, 6).double()
    torch.testing.assert_close(basis @ basis.T, torch.eye(6).double(), atol=1e-6, rtol=0)


def test_characteristic_functions_differ_by_amplitude_and_phase():
    one, other = torch.randn(2, 4, 9), torch.randn(2, 4, 9)
    a, b = torch.complex(*one), torch.complex(*other)
    turned = 2 * a.abs() * b.abs() * (1 - (a.angle() - b.angle()).cos())
    wanted = (0.3 * (a.abs() - b.abs()).square() + 0.7 * turned).sqrt().mean(dim=-1)
    torch.testing.assert_close(objectives.apart(one, other, 0.3), wanted, atol=1e-4, rtol=0)


def test_frames_that_stand_still_have_no_differences():
    assert not objectives.changes(torch.rand(2, 3, 1, 8, 8).expand(-1, -1, 5, -1, -1)).any()
