"""KID: MMD² by the cubic kernel, from blocks of rows (equations.md §6)."""
