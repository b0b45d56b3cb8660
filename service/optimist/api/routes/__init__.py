"""The routes, thin: parameters in, one call, answer out."""
