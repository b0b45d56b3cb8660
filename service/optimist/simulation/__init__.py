"""Simulates policies on given samples and measures their costs. `digits` has the real generators of the demo."""
