"""What experiments ask for: a module for each goal, by `registry`."""
