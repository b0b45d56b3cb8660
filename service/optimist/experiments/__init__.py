"""What an experiment does next and what is said of it: pure functions of records and estimates. No Redis, no torch."""
