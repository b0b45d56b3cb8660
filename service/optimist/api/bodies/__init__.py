"""Reads request bodies as named arrays and checks them."""
