"""Whole runs in this process, without a service: `run` of functions, `compare` of folders and files."""
