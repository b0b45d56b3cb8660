"""The HTTP service: thin routes over the store and the policies. It does not import torch."""
