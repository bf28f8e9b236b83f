"""What a store remembers is what would be computed, and may be lost, damaged or impossible to keep."""

import os
from pathlib import Path

import numpy as np
import torch
from settings import CPU

from prism.artifacts import cache
from prism.artifacts.cache import CacheFile


class Computing:
    """A tensor, and how often it was asked for."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values, self.times = values, 0

    def __call__(self) -> torch.Tensor:
        self.times += 1
        return self.values


def remembered(store, kind, key, device, shape, compute):
    file = CacheFile.of(store, kind, key, device, shape)
    if (found := file.load()) is None:
        file.save(found := compute())
    return found


def kept(make_store):
    """A store that remembers one tensor, how that is computed, and its file."""
    store, compute = make_store(), Computing(torch.rand(3, 2))
    remembered(store, "a", {}, CPU, (3, 2), compute)
    (file,) = (store.path / "cache").iterdir()
    return store, compute, file


def assert_made_again(store, compute):
    """The tensor is computed a second time, and then remembered."""
    for _ in range(2):
        assert torch.equal(remembered(store, "a", {}, CPU, (3, 2), compute), compute.values)
    assert compute.times == 2


def test_a_tensor_is_computed_once_for_each_key_and_kind(make_store):
    store, compute = make_store(), Computing(torch.rand(3, 2))
    for _ in range(2):
        for kind, key in [("a", {"x": 1}), ("a", {"x": 2}), ("b", {"x": 1})]:
            assert torch.equal(remembered(store, kind, key, CPU, (3, 2), compute), compute.values)
    assert compute.times == 3


def test_a_file_in_which_one_bit_of_each_value_has_changed_is_made_again(make_store):
    store, compute, file = kept(make_store)
    written = file.read_bytes()
    # The values are the last bytes of the file.
    changed = np.frombuffer(written[-24:], dtype="<u4") ^ 1
    file.write_bytes(written[:-24] + changed.tobytes())
    assert_made_again(store, compute)
    assert file.read_bytes() == written


def test_a_store_that_cannot_be_written_remembers_nothing_and_works(make_store):
    store, compute = make_store(), Computing(torch.rand(3, 2))
    (store.path / "cache").write_text("in the way")
    for _ in range(2):
        assert torch.equal(remembered(store, "a", {}, CPU, (3, 2), compute), compute.values)
    assert compute.times == 2


def test_the_oldest_go_first_and_only_those_of_the_same_kind(make_store, monkeypatch):
    store, compute = make_store(), Computing(torch.rand(3, 2))
    for age, (kind, i) in enumerate([("other", 0), ("a", 0), ("a", 1)]):
        before = set((store.path / "cache").glob("*"))
        remembered(store, kind, {"i": i}, CPU, (3, 2), compute)
        (file,) = set((store.path / "cache").iterdir()) - before
        os.utime(file, (age, age))
    monkeypatch.setattr(cache, "KEPT_BYTES", 2 * file.stat().st_size)
    remembered(store, "a", {"i": 2}, CPU, (3, 2), compute)
    for kind, i in [("other", 0), ("a", 1), ("a", 2)]:
        remembered(store, kind, {"i": i}, CPU, (3, 2), compute)
    assert compute.times == 4
    remembered(store, "a", {"i": 0}, CPU, (3, 2), compute)
    assert compute.times == 5


def test_another_gpu_or_way_of_rounding_has_a_file_of_its_own(store, monkeypatch):
    def path(name: str, device: str = "cuda") -> Path:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
        return CacheFile.of(store, "moments", {}, torch.device(device), (2, 2)).path

    paths = [path("one", "cpu"), path("one"), path("other")]
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not torch.backends.cudnn.allow_tf32)
    paths.append(path("other"))
    assert len(set(paths)) == 4
    assert path("other") == paths[-1]
    assert path("other", "cpu") == paths[0]
