"""What asks of a router are answered from: regressions on embeddings, their model, the policy. Free of torch."""
