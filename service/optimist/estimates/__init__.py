"""Estimates and what they are made of beside their metric: pairs, clusters, times, audits, mixtures. No torch."""
