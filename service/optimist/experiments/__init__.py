"""The next steps of an experiment and its reports: pure functions of records and estimates. No Redis, no torch."""
