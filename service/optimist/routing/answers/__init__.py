"""The basis of a router's answers to asks: regressions on embeddings, their model, the policy. Free of torch."""
