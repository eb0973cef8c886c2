"""Benchmarks: what an answer costs, always beside a rival or a floor in the same run."""
