"""The Inception score: class probabilities (equations.md §2)."""
