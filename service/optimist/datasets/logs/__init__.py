"""Logs of harnesses as rows: one small module for each harness, found by what is in a file."""
