"""The checks that every request passes first: request id, access key, permissions, limits, rates."""
