"""Samples and scores as files and folders hold them: what is a sample, its name, its generator, and what is left out.

Tables (.csv, .jsonl, .parquet) are read by the SDK's `rows`, arrays of numbers by its `files`.
"""
