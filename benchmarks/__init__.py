"""What PRISM costs: one module for each claim of docs/performance.md. Run them with `python -m benchmarks`."""

from prism.machine.devices import let_waiting_threads_sleep

# As the `prism` command does, and before PyTorch is imported.
let_waiting_threads_sleep()
