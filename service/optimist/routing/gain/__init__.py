"""The gain of routing prompts over the best single generator: types of prompts, outcomes, tables."""
