"""Everything in this process, without a service: scores of samples and files, an `Evaluation`, `run` and `compare`."""
