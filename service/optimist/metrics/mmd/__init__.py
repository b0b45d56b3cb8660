"""MMD² and CMMD: distances of means in the features of a kernel (equations.md §6)."""
