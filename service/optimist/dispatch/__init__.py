"""The assignment of picks: the dispatcher keeps an experiment's state in step with the store, and reports. No HTTP."""
