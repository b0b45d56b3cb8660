"""The laboratory: real generators to compare, and what comparing them costs."""
