"""Means of one number for each sample, with confidence sequences (decisions.md §2)."""
