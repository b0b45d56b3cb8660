"""For all tests: one thread of BLAS a process, as several tests run beside one another."""

import os

# Before torch is imported. Eigenproblems of more threads than there are cores wait at every step: one test took 77 s
# beside another where it takes 2.
os.environ.setdefault("OMP_NUM_THREADS", "1")
