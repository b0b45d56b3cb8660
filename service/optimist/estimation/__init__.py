"""Rows in, estimates out: the question, a stream of each generator, and what is made of all of them. No Redis."""
