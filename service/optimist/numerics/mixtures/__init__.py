"""Mixtures: the weights by which samples of several generators make the best blend (docs/mixtures.md)."""
