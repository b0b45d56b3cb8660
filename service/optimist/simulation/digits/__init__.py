"""The demo's real generators of handwritten digits."""
