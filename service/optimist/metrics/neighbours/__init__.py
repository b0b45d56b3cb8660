"""Precision, density and coverage: samples in balls around real samples (equations.md §7)."""
