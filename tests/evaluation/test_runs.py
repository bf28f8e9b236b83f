"""Runs: one network for each seed, in any number side by side, always with the same scores."""

import sys
import threading

import pytest
from conftest import Crash
from settings import threads, wait_for, without_seconds

from prism.artifacts.results import Result
from prism.errors import Interrupted
from prism.evaluation.evaluate import evaluate
from prism.machine.executors import workers_for
from prism.selection.select import select

TINY = {"width": 8, "epochs": 2, "seeds": 3, "device": "cpu"}


def train_on_all(store, **options) -> Result:
    return evaluate(None, store, train=store, **(TINY | options))


# Of this width and schedule the gradients of two threads are others than those of one.
def test_no_score_depends_on_the_number_of_threads_or_of_networks_side_by_side(roomy):
    found = []
    for num_threads, workers in [(1, 1), (2, 1), (1, 2), (2, None)]:
        with threads(num_threads):
            found.append(without_seconds(train_on_all(roomy, workers=workers, seeds=2)))
    assert all(runs == found[0] for runs in found)
    assert len({run.train_loss for run in found[0]}) == 2


@pytest.mark.parametrize("method", ["herding", "k-center"])
def test_no_choice_by_a_trained_embedding_depends_on_the_number_of_threads(make_store, method):
    found = []
    for num_threads in (1, 2):
        # A store of its own, since embeddings are kept beside the clips.
        store = make_store(train=10)
        with threads(num_threads):
            chosen = select(store, method=method, vpc=4, width=8, epochs=2, device="cpu")
        (kept,) = (store.path / "cache").iterdir()
        found.append((chosen.to_bytes(), kept.read_bytes()))
    assert found[0] == found[1]


@pytest.fixture
def training(monkeypatch):
    """`training.most` trainings were on at a time; `training.begin(seed)` is called at the beginning of each.

    `training.errors` are what ended them before their time.
    """

    class Training:
        now, most, begin = 0, 0, staticmethod(lambda seed: None)

    seen, lock, module = Training(), threading.Lock(), sys.modules["prism.evaluation.evaluate"]
    seen.errors = {}
    original = module.train

    def watched(*args: object, **options: object) -> float:
        with lock:
            seen.now += 1
            seen.most = max(seen.most, seen.now)
        try:
            seen.begin(options["seed"])
            return original(*args, **options)
        except BaseException as error:
            seen.errors[options["seed"]] = type(error)
            raise
        finally:
            with lock:
                seen.now -= 1

    monkeypatch.setattr(module, "train", watched)
    return seen


@pytest.mark.parametrize(("networks", "cores", "workers"), [(1, 4, 1), (3, 2, 3), (4, 2, 2), (9, 2, 3), (5, 4, 5)])
def test_networks_share_the_cores_evenly(networks, cores, workers):
    assert workers_for(networks, cores) == workers


def test_a_seed_that_ends_early_is_saved_at_once_and_the_runs_are_sorted(roomy, training, tmp_path):
    output, last_is_saved = tmp_path / "r.json", threading.Event()

    def wait_for_the_last(seed: int) -> None:
        if seed == 0:
            assert last_is_saved.wait(60)
        if seed == 2:
            # Begun when seed 1 was done: the result is there as soon as this one waits for it.
            wait_for(output.exists)
            assert [run.seed for run in Result.load(output).runs] == [1]
            last_is_saved.set()

    training.begin = wait_for_the_last
    result = train_on_all(roomy, workers=2, output=output)
    assert [run.seed for run in result.runs] == [0, 1, 2]
    assert Result.load(output) == result


def test_the_trainings_beside_one_that_fails_end_at_their_next_layer(roomy, training, tmp_path):
    begun = threading.Event()

    def crash(seed: int) -> None:
        if seed == 1:
            assert begun.wait(60)
            raise Crash
        begun.set()

    training.begin = crash
    with pytest.raises(Crash):
        train_on_all(roomy, workers=2, epochs=10**4, output=tmp_path / "r.json")
    # The third may have begun in the place of the failing one.
    assert {0: Interrupted, 1: Crash, 2: Interrupted} == {2: Interrupted} | training.errors
    assert not (tmp_path / "r.json").exists()
