"""What each command does to an experiment, as functions of an `Oracle`: each changes it, and returns its reply."""
