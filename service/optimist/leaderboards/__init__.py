"""Logs of harnesses compared: models by tasks, their differences with errors, and what is said of them."""
