"""What PRISM costs: one module for each claim of docs/performance.md. Run them with `python -m benchmarks`."""

from prism.machine.devices import set_environment

# As the `prism` command does, and before PyTorch is imported.
set_environment()
