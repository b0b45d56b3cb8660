"""What scorers learn of routed prompts, with torch: what is kept of each generator's batches, and models of all."""
