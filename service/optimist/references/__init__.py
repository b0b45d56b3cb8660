"""Real data, and what kernels need before the first estimate. No torch."""
