"""Goals of experiments: a module for each, by `registry`."""
