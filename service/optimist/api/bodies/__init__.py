"""Tensors in: bodies read as arrays and checked."""
