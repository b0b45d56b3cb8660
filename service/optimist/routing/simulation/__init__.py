"""Trials of routers on prompts whose scores are known, and what the laboratory shows of them."""
