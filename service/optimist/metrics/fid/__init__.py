"""The Fréchet distance: mean and covariance against real data's (equations.md §1)."""
