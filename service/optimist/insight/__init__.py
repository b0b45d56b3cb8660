"""Prometheus metrics and logs of a process. They name no experiment, generator or key."""
