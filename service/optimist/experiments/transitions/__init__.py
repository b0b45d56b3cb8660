"""What each command does to an experiment, as pure functions of a `Draft`: each changes the draft, and returns its
reply."""
