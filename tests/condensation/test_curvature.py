"""The largest curvature of a loss, and the learning rate that is measured by it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import PAPER

from prism.condensation.condense import condense
from prism.condensation.curvature import largest_curvature
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig
from prism.errors import DivergedError

CPU = torch.device("cpu")
TINY = PAPER | {"width": 4, "batch_real": 2, "iterations": 4, "lr": 0.0}


@settings(max_examples=20)
@given(largest=st.floats(0.01, 100), share=st.floats(0, 0.1), seed=st.integers(0, 1000))
def test_the_largest_curvature_of_a_quadratic_is_its_largest_eigenvalue(largest, share, seed):
    draw = torch.Generator().manual_seed(seed)
    values = torch.cat([torch.tensor([largest]), share * largest * torch.rand(9, generator=draw)])
    basis = torch.linalg.qr(torch.randn(10, 10, generator=draw)).Q
    tensors = [torch.randn(4, generator=draw), torch.randn(2, 3, generator=draw)]
    before = [tensor.clone() for tensor in tensors]

    def gradients(step: int) -> list[torch.Tensor]:
        whole = torch.cat([tensor.flatten() for tensor in tensors])
        gradient = basis @ (values * (basis.T @ whole))
        return [gradient[:4], gradient[4:].view(2, 3)]

    assert largest_curvature(tensors, gradients, seed) == pytest.approx(largest, rel=0.05)
    assert all(torch.equal(*pair) for pair in zip(tensors, before, strict=True))


def test_the_largest_curvature_of_complex_numbers_takes_in_their_imaginary_parts():
    quadratic, tensors = torch.tensor([[2, 2j], [-2j, 2]]), [torch.tensor([2j, 3j])]  # eigenvalues 0 and 4
    assert largest_curvature(tensors, lambda step: [quadratic @ tensors[0]], seed=0) == pytest.approx(4)


def test_a_loss_that_depends_on_nothing_has_no_curvature():
    tensors = [torch.randn(4)]
    assert largest_curvature(tensors, lambda step: [torch.zeros(4)], seed=0) == 0


def rate(store, classes=None, **options) -> float:
    return Condensation(store, CondenseConfig(**(TINY | options)), CPU, classes).rates[0]


def test_a_relative_rate_is_proportional_to_its_option_and_grows_with_the_videos_of_a_mean(store):
    assert rate(store, relative_lr=1.0) == pytest.approx(10 * rate(store, relative_lr=0.1))
    # The loss of a mean of n videos has a hundredth of the curvature in each of them, for n = 10, and tenfold
    # directions: λ falls like n.
    assert 1.4 < rate(store, vpc=2) / rate(store, vpc=1) < 2.8


def test_a_rate_does_not_depend_on_which_classes_are_condensed(store):
    assert rate(store, range(1, 2)) == rate(store)


def test_an_absolute_rate_is_taken_as_it_is_and_measures_nothing(store, monkeypatch):
    monkeypatch.setattr("prism.condensation.loop.largest_curvature", None)
    assert rate(store, lr=0.3) == 0.3


def test_rates_fall_along_half_a_cosine_or_stay(store):
    run = Condensation(store, CondenseConfig(**(TINY | {"lr": 2.0, "decay": "cosine"})), CPU)
    assert [round(run.step().lr, 6) for _ in range(4)] == [2.0, 1.707107, 1.0, 0.292893]
    run = Condensation(store, CondenseConfig(**(TINY | {"lr": 2.0})), CPU)
    assert [run.step().lr for _ in range(4)] == [2.0] * 4


def test_a_value_that_grows_without_bound_is_answered_with_the_option_that_set_the_rate(store):
    from prism.errors import DivergedError

    with pytest.raises(DivergedError, match=r"start again with --relative-lr 0.2 --overwrite"):
        condense(store, device="cpu", **(TINY | {"relative_lr": 1e30, "iterations": 20}))


def test_a_network_under_which_the_loss_is_flat_does_not_count():
    """A narrow network may be dead as it is drawn: it embeds all clips alike."""
    tensors, curvatures = [torch.randn(6)], [5.0, 0.0, 7.0]
    before = tensors[0].clone()
    found = largest_curvature(tensors, lambda step: [curvatures[step] * tensors[0]], seed=0)
    assert found == pytest.approx(6.0, rel=0.01)
    assert torch.equal(tensors[0], before)


def test_a_relative_rate_of_a_loss_that_depends_on_nothing_is_refused(store, monkeypatch):
    monkeypatch.setattr("prism.condensation.loop.largest_curvature", lambda *given: 0.0)
    with pytest.raises(DivergedError, match="the loss does not depend on the videos before the first iteration"):
        rate(store)
