"""A folder for each room, `beside` for the modules beside the rooms, and `support`, `system` and `chaos`."""
