"""What each goal brings to the laboratory: the truth, what it records of trials, and what of them is shown."""
