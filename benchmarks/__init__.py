"""What PRISM costs: one module for each claim of docs/performance.md. Run them with `python -m benchmarks`."""
