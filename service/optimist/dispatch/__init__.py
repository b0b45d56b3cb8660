"""Who gets which pick: state, assignment, dispatcher; report and progress curve. No HTTP."""
