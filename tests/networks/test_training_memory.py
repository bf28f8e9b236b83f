"""What training takes is counted, not guessed, and refused before a byte of it is allocated."""

import math
import re
from pathlib import Path

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from prism.errors import ConfigError
from prism.machine import free_memory
from prism.machine.free_memory import available_memory_bytes, of_groups
from prism.machine.randomness import generator
from prism.networks import training_memory as memory
from prism.networks.build import build
from prism.networks.convnet3d import ConvNet3D
from prism.networks.initial import initialise
from prism.networks.network import Network
from prism.networks.options import NETWORKS
from prism.networks.training_memory import check_memory, training_memory

CPU = torch.device("cpu")
PAPER = {"num_classes": 50, "num_frames": 16, "size": 112}


def test_the_lstm_takes_two_gigabytes_of_weights_and_six_to_train():
    needs = training_memory(build("cnn-lstm", "meta", **PAPER), 1)
    assert needs.num_parameters == 537_645_618
    assert needs.weight_bytes == 3 * 4 * 537_645_618
    assert needs.weight_bytes / 3 / 1e9 == pytest.approx(2.15, abs=0.01)
    assert needs.recurrent_bytes == 2 * 4 * 4 * 8192 * (8192 + 8192 + 2)
    assert needs.total_bytes == needs.weight_bytes + needs.recurrent_bytes + needs.activation_bytes


def test_the_activations_of_convnet3d_are_those_counted_by_hand():
    needs = training_memory(build("convnet3d", "meta", **PAPER), 1)
    inputs, positions = 4 * 3 * 16 * 112 * 112, 8
    convolved = [64 * 16 * 56 * 56, 128 * 16 * 14 * 14, 128 * 8 * 4 * 4]
    pooled = [64 * 16 * 28 * 28, 128 * 8 * 7 * 7, 128 * 4 * 2 * 2]
    blocks = sum(4 * c + (4 + positions) * p for c, p in zip(convolved, pooled, strict=True))
    assert needs.activation_bytes == pytest.approx(inputs + blocks, rel=1e-3)


@pytest.mark.parametrize(
    "shape",
    [
        PAPER,
        {"num_classes": 10_000, "num_frames": 4, "size": 43, "width": 2},
        PAPER | {"size": (93, 131), "width": 3},
    ],
)
def test_the_count_of_convnet3d_is_that_of_the_meta_device_and_a_subclass_has_its_own(shape):
    class Deeper(ConvNet3D):
        def forward(self, clips: torch.Tensor) -> torch.Tensor:
            return super().forward(clips.exp().exp())

    network, deeper = (build(model, "meta", **shape) for model in ("convnet3d", Deeper))
    for output_of in (network, network.embed):
        assert network.kept_bytes(output_of) == pytest.approx(Network.kept_bytes(network, output_of), rel=1e-3)
    # Both powers are kept, and the clip itself no longer.
    clip = 4 * 3 * shape["num_frames"] * math.prod(network.size)
    assert deeper.kept_bytes(deeper) - Network.kept_bytes(network, network) == clip


@pytest.mark.parametrize("name", NETWORKS.registry)
def test_the_count_is_what_a_real_forward_pass_keeps(name):
    shape = {"num_classes": 3, "num_frames": 8, "size": 48, "width": 8}
    network, kept = build(name, **shape), {}
    initialise(network, generator(0, "init"))

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = network(torch.rand(4, 3, 8, 48, 48))
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    real = sum(kept[key].untyped_storage().nbytes() for key in kept.keys() - weights)
    assert logits.shape == (4, 3)
    assert training_memory(build(name, "meta", **shape), 4).activation_bytes == pytest.approx(real, rel=0.05)


@pytest.mark.parametrize(
    ("name", "free", "batch_size", "says"),
    [
        ("cnn-lstm", 4.0, 10, r"takes 11.0 GiB: 10.0 GiB for 537,645,618 .* 4.0 GiB free. .* --hidden"),
        ("convnet3d", 4.0, 256, r"6.5 GiB for a batch of 256 clips. cpu has 4.0 GiB free. .* --width or --batch"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_it_takes_and_a_remedy(monkeypatch, name, free, batch_size, says):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: int(free * 2**30))
    with pytest.raises(ConfigError, match=says):
        check_memory(build(name, "meta", **PAPER), batch_size, CPU)


@pytest.mark.parametrize("name", NETWORKS.registry)
def test_what_fits_to_the_byte_is_not_refused_and_one_byte_less_is_with_what_it_takes(monkeypatch, name):
    network = build(name, "meta", **PAPER)
    needs = training_memory(network, 2)
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: needs.total_bytes)
    assert check_memory(network, 2, CPU) == needs
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: needs.total_bytes - 1)
    with pytest.raises(ConfigError) as caught:
        check_memory(network, 2, CPU)
    sentence = str(caught.value)
    assert sentence.startswith(f"training {name} takes {needs.total_bytes / 2**30:.1f} GiB: ")
    assert f"{needs.num_parameters:,} weights" in sentence
    (option,) = re.findall(r"Pass a smaller --(\w+) or --batch-size\.$", sentence)
    smaller = build(name, "meta", **PAPER, **{option: 8})
    assert training_memory(smaller, 2).total_bytes < needs.total_bytes


def test_a_smaller_hidden_size_is_a_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: 2**31)
    assert check_memory(build("cnn-lstm", "meta", **PAPER, hidden=512), 10, CPU).total_bytes < 2**31


def test_where_the_system_does_not_tell_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: None)
    assert check_memory(build("cnn-lstm", "meta", **PAPER), 10**6, CPU)


def test_the_available_memory_of_this_machine_is_positive_and_finite():
    free = available_memory_bytes(CPU)
    assert free is None or 0 < free < math.inf


def test_what_pytorch_keeps_for_its_next_tensors_is_free_on_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 * GIB, 16 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 12 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * GIB)
    assert available_memory_bytes(torch.device("cuda")) == 13 * GIB


GIB = 2**30
UNLIMITED = 9223372036854771712
"""What the first version of control groups says where there is no limit."""


def group(folder: Path, version: int, limit: int | str, used: int, cache: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _, limits, usage, given_up = free_memory.VERSIONS[version]
    (folder / limits).write_text(f"{limit}\n")
    (folder / usage).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{given_up} {cache}\n")


@pytest.mark.parametrize(
    ("version", "line"), [(1, "4:cpu,memory:/outer/inner"), (2, "0::/outer/inner")], ids=["v1", "v2"]
)
def test_every_control_group_above_the_process_counts_and_its_cache_is_free(tmp_path, version, line):
    top = tmp_path / free_memory.VERSIONS[version][0]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"9:name=systemd:/\n{line}\n")
    group(top / "outer/inner", version, 6 * GIB, 3 * GIB, GIB)
    group(top / "outer", version, 8 * GIB, 7 * GIB, GIB)
    group(top, version, "max" if version == 2 else UNLIMITED, 9 * GIB, GIB)
    assert sorted(of_groups(tmp_path))[:2] == [2 * GIB, 4 * GIB]
    assert all(free > 10**18 for free in sorted(of_groups(tmp_path))[2:])


def test_in_a_container_the_group_at_the_top_counts_and_an_exceeded_limit_leaves_nothing(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/named/by/the/host\n")
    group(tmp_path / "sys/fs/cgroup", 2, GIB, 2 * GIB, 0)
    assert list(of_groups(tmp_path)) == [0]


def test_a_system_without_control_groups_has_no_limit_of_theirs(tmp_path):
    assert list(of_groups(tmp_path)) == []


def test_the_smaller_of_machine_and_control_group_is_what_is_free(monkeypatch):
    monkeypatch.setattr(free_memory, "of_groups", lambda root: [12345])
    assert available_memory_bytes(CPU) == 12345


@pytest.mark.parametrize("name", NETWORKS.registry)
def test_the_table_of_the_documentation_says_what_is_counted(name):
    needs = training_memory(build(name, "meta", **PAPER), 1)
    lines = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `{name}` |")]
    _, parameters, state, kept, dim = [cell.strip() for cell in row.strip("|").split("|")]
    units = {"MiB": 2**20, "GiB": 2**30}
    number, unit = state.split()
    assert parameters == f"{needs.num_parameters:,}"
    assert needs.weight_bytes / units[unit] == pytest.approx(float(number), abs=0.5 if unit == "MiB" else 0.05)
    assert kept == f"{needs.activation_bytes / 2**20:.0f} MiB"
    assert dim == f"{build(name, 'meta', **PAPER).embed_dim:,}"
