"""The HTTP routes. Each reads its parameters, makes one call and returns its result."""
