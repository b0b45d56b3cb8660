"""Reasons to refuse a batch, or to note it: shapes, numbers, sizes, copies, levels. No torch."""
