"""Functions of a spectrum: the trace of a root, exactly, and de-biased by the leave-one-out map. Torch, any device."""

from optimist.spectra.eigen import centre, double_centre, pair_sum, root_trace
from optimist.spectra.leave_one_out import DebiasedTrace, debiased_root_trace

__all__ = ["DebiasedTrace", "centre", "debiased_root_trace", "double_centre", "pair_sum", "root_trace"]
