"""A device beside the CPU that needs no hardware: tensors that say so, with their values on the CPU.

It computes as the CPU does, refuses to mix its tensors with the CPU's where a GPU would, and counts what the CPU
would have to wait for. A copy from pinned memory is made as late as a GPU may make it, and a recording repeats
nothing but operations. `tests/test_accelerator.py` runs PRISM on it.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

from prism.condensation import recorded
from prism.networks import feed

DEVICE = torch.device("meta")
"""The name that the pretended device goes by: PyTorch knows no other that needs no driver."""

aten = torch.ops.aten
ANSWERS = {
    *(aten._local_scalar_dense.default, aten.equal.default, aten.nonzero.default, aten.masked_select.default),
    *(aten.bincount.default, aten.repeat_interleave.Tensor, aten._unique2.default, aten.unique_dim.default),
}
"""What the CPU must know before it goes on: a value, or how large a result is."""
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
"""A mask of booleans is searched first, so the CPU waits. It also sends indices of its own, and waits for that."""


class OnAccelerator(Tensor):
    """A tensor on the pretended device."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "OnAccelerator":
        form = {"strides": values.stride(), "storage_offset": values.storage_offset(), "dtype": values.dtype}
        made = Tensor._make_wrapper_subclass(cls, values.shape, device=DEVICE, **form)
        made.values = values
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: Any) -> "OnAccelerator":
        return OnAccelerator(inner["values"])

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_: Any) -> Any:
        raise AssertionError(f"{func} on the pretended device, which is there only within `with Accelerator()`")

    def record_stream(self, s: Any) -> None:
        s.accelerator.copies[_storage(self.values)].users.append(s)


@dataclass
class Copy:
    """A copy from pinned memory that has been asked for.

    Attributes:
        stream: on which it is made.
        users: other streams for which its memory is kept.
    """

    source: Tensor
    target: Tensor
    stream: "Stream"
    users: list["Stream"] = field(default_factory=list)


class Stream:
    """Operations in their order, as `torch.cuda.Stream`.

    Attributes:
        known: up to which operation it has waited for each other stream.
    """

    def __init__(self, accelerator: "Accelerator") -> None:
        self.accelerator = accelerator
        self.known: dict[Stream, int] = {}

    def wait_stream(self, other: "Stream") -> None:
        self.known |= {stream: max(place, self.known.get(stream, 0)) for stream, place in other.known.items()}
        self.known[other] = self.accelerator.num_operations

    def knows(self, written: "Written") -> bool:
        return written.stream is self or self.known.get(written.stream, 0) >= written.place

    def record_event(self) -> "Event":
        return Event(self.accelerator, self.accelerator.num_operations)


@dataclass
class Written:
    """The last operation that wrote into some memory."""

    stream: Stream
    place: int


@dataclass
class Event:
    """A place between two operations."""

    accelerator: "Accelerator"
    place: int

    def synchronize(self) -> None:
        parts = self.accelerator.parts
        parts[:] = [asked for asked in parts if asked > self.place]


class Graph:
    """Operations that can be repeated, as `torch.cuda.CUDAGraph`: each writes where it wrote before."""

    def __init__(self) -> None:
        self.accelerator: Accelerator | None = None
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def replay(self) -> None:
        assert self.accelerator is not None, "nothing was recorded"
        for func, args, kwargs, found in self.operations:
            for target, value in zip(_tensors(found), _tensors(func(*args, **kwargs)), strict=True):
                target.copy_(value)
                self.accelerator.write(target)


class Cuda:
    """What PRISM uses of `torch.cuda`."""

    CUDAGraph = Graph

    def __init__(self, accelerator: "Accelerator") -> None:
        self.accelerator = accelerator

    def Stream(self, device: object = None) -> Stream:
        return Stream(self.accelerator)

    def current_stream(self, device: object = None) -> Stream:
        return self.accelerator.stream

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.accelerator.stream = self.accelerator.stream, stream
        try:
            yield
        finally:
            self.accelerator.stream = before

    def get_sync_debug_mode(self) -> str:
        return self.accelerator.sync_debug_mode

    def set_sync_debug_mode(self, mode: str) -> None:
        self.accelerator.sync_debug_mode = mode

    @contextmanager
    def graph(self, graph: Graph, stream: Stream) -> Iterator[None]:
        before, self.accelerator.graph, graph.accelerator = self.accelerator.stream, graph, self.accelerator
        # As PyTorch does, it waits for everything first.
        stream.wait_stream(before)
        self.accelerator.stream = stream
        try:
            yield
        except BaseException:
            raise RuntimeError("operation failed due to a previous error during capture\nSearch for more.")  # noqa: B904
        finally:
            self.accelerator.graph = None
        # After a failure PyTorch leaves the stream of the recording behind.
        self.accelerator.stream = before
        # While it is recorded, nothing is computed.
        for _, args, kwargs, found in graph.operations:
            given = {_storage(tensor) for tensor in _tensors((args, kwargs))}
            for value in _tensors(found):
                if value.is_floating_point() and _storage(value) not in given:
                    value.fill_(torch.nan)
                self.accelerator.write(value)


class Accelerator(TorchDispatchMode):
    """While it lasts, `torch.device("meta")` is a device whose tensors have values.

    Attributes:
        waits: how often the CPU would have waited for it, by operation.
        parts: the copies from pinned memory whose memory may still be in use, by the operations before each.
        most_parts: as many as there ever were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.stream, self.graph = Stream(self), None
        self.pinned: dict[int, Tensor] = {}
        self.copies: dict[int, Copy] = {}
        self.written: dict[int, Written] = {}
        self.sync_debug_mode = "default"
        self.parts: list[int] = []
        self.num_operations = self.most_parts = 0
        self._patches = ExitStack()

    def __enter__(self) -> "Accelerator":
        feed.feed_of.cache_clear()
        for module in (feed, recorded):
            self._patches.enter_context(patch.object(module, "cuda", Cuda(self)))
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._patches.close()
        feed.feed_of.cache_clear()
        super().__exit__(*raised)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = _tensors((args, kwargs))
        target = kwargs.get("device")
        if kwargs.pop("pin_memory", None):
            made = func(*args, **kwargs)
            self.pinned[_storage(made)] = made
            return made
        if target != DEVICE and not any(isinstance(tensor, OnAccelerator) for tensor in tensors):
            return func(*args, **kwargs)
        self.num_operations += 1
        waits = self.waits.total()
        where = target or DEVICE
        if func in (aten._to_copy.default, aten.copy_.default):
            source, where = (
                (args[1], args[0].device) if func == aten.copy_.default else (args[0], target or DEVICE)
            )
            is_patient = not (kwargs.get("non_blocking") or args[2:3] == (True,))
            is_sent = func == aten._to_copy.default and where == DEVICE
            if is_sent and _storage(source) in self.pinned and not is_patient:
                return self._copy_late(source)
            self.waits["a copy to the CPU"] += where != DEVICE
            self.waits["a copy from the CPU"] += source.device != DEVICE and is_patient
        else:
            self._check(func, args, tensors)
        for tensor in tensors:
            if isinstance(tensor, OnAccelerator):
                self._arrive(tensor.values)
        plain_args, plain_kwargs = tree_map_only(OnAccelerator, lambda tensor: tensor.values, (args, kwargs))
        if target == DEVICE:
            plain_kwargs["device"] = torch.device("cpu")
        found = func(*plain_args, **plain_kwargs)
        if self.graph is not None:
            if (
                self.waits.total() > waits
                or where != DEVICE
                or not all(isinstance(t, OnAccelerator) for t in tensors)
            ):
                raise RuntimeError(f"{func} is not permitted while a stream is captured.\nSearch for more.")
            self.graph.operations.append((func, plain_args, plain_kwargs, found))
        if self.waits.total() > waits and self.sync_debug_mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")
        if where != DEVICE:
            return found
        seen = set() if func._schema.is_mutable else {_storage(tensor) for tensor in _tensors(plain_args)}
        for value in _tensors(found):
            if _storage(value) not in seen:
                self.write(value)
        return return_and_correct_aliasing(func, args, kwargs, tree_map_only(Tensor, OnAccelerator, found))

    def _copy_late(self, source: Tensor) -> OnAccelerator:
        """A tensor whose values are there when they are used: until then memory holds something else."""
        target = torch.full_like(source, 77)
        self.copies[_storage(target)] = Copy(source, target, self.stream)
        self.write(target)
        self.parts.append(self.num_operations)
        self.most_parts = max(self.most_parts, len(self.parts))
        return OnAccelerator(target)

    def write(self, values: Tensor) -> None:
        """Remember that the operation of now gave a tensor its values."""
        self.written[_storage(values)] = Written(self.stream, self.num_operations)

    def _arrive(self, values: Tensor) -> None:
        """Refuse a tensor that may not be there yet when it is used, and make the copy that it waits for."""
        if (written := self.written.get(_storage(values))) is not None:
            assert self.stream.knows(written), "it is used before it is there"
        if (copy := self.copies.get(_storage(values))) is None:
            return
        if copy.stream is not self.stream:
            assert self.stream in copy.users, "its memory may be given away while it is used"
        copy.target.copy_(copy.source)
        del self.copies[_storage(values)]

    def _check(self, func: Any, args: Any, tensors: list[Tensor]) -> None:
        """Count what is waited for, and refuse what a GPU refuses."""
        indices = [index for index in args[1] if index is not None] if func in INDEXING else []
        for index in indices:
            if not isinstance(index, OnAccelerator) or index.dtype == torch.bool:
                self.waits[str(func)] += 1
        self.waits[str(func)] += func in ANSWERS
        # A GPU takes a single number from the CPU, with the kernel that it starts.
        rest = [t for t in tensors if t.dim() and not any(t is index for index in indices)]
        assert all(isinstance(tensor, OnAccelerator) for tensor in rest), f"{func} mixes devices"


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
