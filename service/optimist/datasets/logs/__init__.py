"""Logs of harnesses as rows: a small module for each harness, chosen by a file's contents."""
