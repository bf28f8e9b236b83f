"""What a store keeps is what was computed, and may be lost, damaged or impossible to keep."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from settings import CPU

from prism.artifacts import cache
from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipStore
from prism.errors import ArtifactError

VALUES = torch.arange(6.0).view(3, 2)


def file_of(store: ClipStore, kind: str = "a", **key: int) -> CacheFile:
    return CacheFile.of(store, kind, key, CPU)


def test_a_tensor_is_kept_for_each_key_and_kind(make_store):
    store = make_store()
    files = [file_of(store, kind, x=x) for kind, x in [("a", 1), ("a", 2), ("b", 1)]]
    assert [file.load() for file in files] == [None] * 3
    for number, file in enumerate(files):
        file.save(VALUES + number)
    assert all(torch.equal(file.load(), VALUES + number) for number, file in enumerate(files))


def test_a_file_in_which_one_bit_of_each_value_has_changed_is_none_until_it_is_made_again(make_store):
    file = file_of(make_store())
    file.save(VALUES)
    written = file.path.read_bytes()
    # The values are the last bytes of the file.
    file.path.write_bytes(written[:-24] + (np.frombuffer(written[-24:], dtype="<u4") ^ 1).tobytes())
    assert file.load() is None
    file.save(VALUES)
    assert file.path.read_bytes() == written


@pytest.mark.parametrize("change", [lambda at: at.rename(f"{at}-moved"), lambda at: os.utime(at / "frames.u8")])
def test_nothing_is_kept_of_a_store_that_was_moved_or_changed_meanwhile(make_store, change):
    store = make_store()
    change(store.path)
    with pytest.raises(ArtifactError, match="changed, replaced or moved while it was being used"):
        file_of(store).save(VALUES)
    assert not (store.path / "cache").exists()


def test_a_store_that_cannot_be_written_keeps_nothing_and_works(make_store):
    store = make_store()
    (store.path / "cache").write_text("in the way")
    file_of(store).save(VALUES)
    assert file_of(store).load() is None


def test_the_oldest_go_first_and_only_those_of_the_same_kind(make_store, monkeypatch):
    store = make_store()
    *files, newest = [file_of(store, kind, i=i) for kind, i in [("other", 0), ("a", 0), ("a", 1), ("a", 2)]]
    for age, file in enumerate(files):
        file.save(VALUES)
        os.utime(file.path, (age, age))
    monkeypatch.setattr(cache, "KEPT_BYTES", 2 * files[0].path.stat().st_size)
    newest.save(VALUES)
    assert [file.load() is not None for file in (*files, newest)] == [True, False, True, True]


def test_another_gpu_or_way_of_rounding_has_a_file_of_its_own(store, monkeypatch):
    def path(name: str, device: str = "cuda") -> Path:
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
        return CacheFile.of(store, "moments", {}, torch.device(device)).path

    paths = [path("one", "cpu"), path("one"), path("other")]
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not torch.backends.cudnn.allow_tf32)
    paths.append(path("other"))
    assert len(set(paths)) == 4
    assert [path("other"), path("other", "cpu")] == [paths[-1], paths[0]]
