"""Rows in, estimates out: the question, a stream of each generator, and artefacts of all generators. No Redis."""
