"""Prometheus metrics of a process. They name no experiment, generator or key."""
