"""Each goal's part of the laboratory: the truth, the record of trials, and the display."""
