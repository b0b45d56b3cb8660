"""How many threads numpy's own BLAS has."""

from __future__ import annotations

from threadpoolctl import ThreadpoolController


def limit_numpy() -> None:
    """Let numpy's BLAS have one thread, for good; torch and scipy keep theirs.

    It has a pool of its own, one thread a core by default, which waits busily: beside other load, the eigenproblems of
    routing took ten times the processor time. Its results also depend, in their last digits, on the number of threads.
    To be called before it has computed anything.
    """
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        if "numpy" in library.filepath:
            library.set_num_threads(1)
