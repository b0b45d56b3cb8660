"""Statistics, scores, influence and bounds, one folder a family of metrics; beside them what families share. No I/O."""
