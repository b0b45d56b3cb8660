"""Routing: what each generator scores on a given prompt, by regressions on the prompt's embedding. Free of torch."""
