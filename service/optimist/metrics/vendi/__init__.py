"""RKE and Vendi scores: the covariance of a kernel's features (equations.md §3)."""
