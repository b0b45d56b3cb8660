"""Messages to other programs: what they say, where they may go, and who sends them when."""
