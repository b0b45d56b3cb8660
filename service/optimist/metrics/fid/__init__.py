"""The Fréchet distance: mean and covariance against those of real data (equations.md §1)."""
