"""What a process tells its operators: metrics for Prometheus, and its log. Names no experiment, generator or key."""
