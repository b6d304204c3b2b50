"""The promised numbers, measured: `python -m benchmarks`."""
