"""Learning from routed prompts in scorers, with torch: the part of each generator's batches that is kept, and
models."""
