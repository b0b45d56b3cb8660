"""Exports an experiment as one file and imports it again; defines the file's format."""
