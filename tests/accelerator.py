"""A device beside the CPU that needs no hardware: tensors that say so, with their values on the CPU.

It computes as the CPU does, refuses to mix its tensors with the CPU's where a GPU would, and counts what the CPU
would have to wait for. `tests/test_accelerator.py` runs PRISM on it.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

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


class Accelerator(TorchDispatchMode):
    """While it lasts, `torch.device("meta")` is a device whose tensors have values.

    Attributes:
        waits: how often the CPU would have waited for it, by operation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        target = kwargs.get("device")
        if target != DEVICE and not any(isinstance(tensor, OnAccelerator) for tensor in tensors):
            return func(*args, **kwargs)
        where = target or DEVICE
        if func in (aten._to_copy.default, aten.copy_.default):
            source, where = (
                (args[1], args[0].device) if func == aten.copy_.default else (args[0], target or DEVICE)
            )
            is_patient = not (kwargs.get("non_blocking") or args[2:3] == (True,))
            self.waits["a copy to the CPU"] += where != DEVICE
            self.waits["a copy from the CPU"] += source.device != DEVICE and is_patient
        else:
            self._check(func, args, tensors)
        plain_args, plain_kwargs = tree_map_only(OnAccelerator, lambda tensor: tensor.values, (args, kwargs))
        if target == DEVICE:
            plain_kwargs["device"] = torch.device("cpu")
        found = func(*plain_args, **plain_kwargs)
        if where != DEVICE:
            return found
        return return_and_correct_aliasing(func, args, kwargs, tree_map_only(Tensor, OnAccelerator, found))

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
