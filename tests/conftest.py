"""For all tests: one thread of BLAS a process, as several tests run beside one another; how many examples to draw."""

import os

from hypothesis import settings

# Before torch is imported. Eigenproblems of more threads than there are cores wait at every step: one test took 77 s
# beside another where it takes 2.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How many examples hypothesis draws: `make test-full` names the profile `full`.
settings.register_profile("default", max_examples=20, deadline=None)
settings.register_profile("full", max_examples=150, deadline=None)
settings.load_profile("default")
