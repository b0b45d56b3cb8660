"""Fault tests: real processes are killed, stopped and disconnected while workers run, and the results are checked."""
