"""Samples and scores in files and folders: samples, their names and generators, and files that are left out.

Tables (.csv, .jsonl, .parquet) are read by the SDK's `rows`, arrays of numbers by its `files`.
"""
