"""`optimist serve`: Redis and scorer as child processes, the API in this process."""
