"""Functions of a spectrum: traces, exactly and as rows keep coming, and de-biased by the leave-one-out map."""

from optimist.metrics.spectra.eigen import (
    centre,
    double_centre,
    eigen_basis,
    eigen_coordinates,
    eigenvalues_of,
    pair_sum,
    root_trace,
)
from optimist.metrics.spectra.following import SMALLEST_WIDTH, TraceFollower
from optimist.metrics.spectra.leave_one_out import (
    DebiasedTrace,
    LeaveOneOutCurve,
    RowWeights,
    SameIndex,
    debiased_root_trace,
    leave_one_out_curve,
    residuals,
)
from optimist.metrics.spectra.symmetric import (
    congruence,
    gram_square_sum,
    increments,
    largest_eigenvalue,
    symmetric_product,
    times_lower,
)

__all__ = [
    "SMALLEST_WIDTH",
    "DebiasedTrace",
    "LeaveOneOutCurve",
    "RowWeights",
    "SameIndex",
    "TraceFollower",
    "centre",
    "congruence",
    "debiased_root_trace",
    "double_centre",
    "eigen_basis",
    "eigen_coordinates",
    "eigenvalues_of",
    "gram_square_sum",
    "increments",
    "largest_eigenvalue",
    "leave_one_out_curve",
    "pair_sum",
    "residuals",
    "root_trace",
    "symmetric_product",
    "times_lower",
]
