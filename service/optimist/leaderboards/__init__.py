"""Logs of harnesses compared: models by tasks, their differences with errors, and texts."""
