"""Numerics without torch: estimates, pairings, moments, checks of batches, programmes, the model of contexts."""
