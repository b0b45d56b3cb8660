"""What routing prompts would gain over the best single generator: types of prompts, outcomes, tables."""
