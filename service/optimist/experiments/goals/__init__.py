"""What differs between goals: the best generator, the best blend, the best generator for each prompt."""
