"""Benchmarks: one module for each claim of docs/performance.md. Run them with `python -m benchmarks`."""

from prism.machine.devices import set_environment

# PyTorch reads it when it is imported; the `prism` command sets it too.
set_environment()
