"""The HTTP service: thin routes over the store and the policies. Does not import torch."""
