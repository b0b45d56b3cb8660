"""KEN: what a generator makes more often than it occurs in real data (equations.md §8). Stands on kernel/."""
