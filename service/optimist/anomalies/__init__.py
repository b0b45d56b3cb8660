"""What is refused of a batch, or noted about it: shapes, numbers, sizes, copies, levels. No torch."""
