"""Scores of pairs of a sample and its prompt: Conditional-Vendi and Information-Vendi (equations.md §4)."""
