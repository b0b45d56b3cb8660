"""The demo's world: real generators of handwritten digits."""
