"""Real data in files: their moments, or real features."""

from __future__ import annotations

from pathlib import Path

from optimist.references.real_data import RealData, check_definite, check_moments
from optimist_client.errors import FixError
from optimist_client.references import Moments, check_samples, given_in


def read_reference(file: Path, samples: int | None = None) -> RealData:
    """Real data from a file of `mean` and `covariance`, of pytorch-fid's `mu` and `sigma`, or of real features.

    samples: the number of features behind moments, unless the file has it. Raises FixError for anything else.
    """
    contents = given_in(file)
    try:
        if isinstance(contents, Moments):
            data = RealData.of_moments(contents.with_samples(samples))
            check_definite(data.covariance, check_moments(data.mean, data.covariance))
            return data
        check_samples(len(contents), samples)
        return RealData.of_rows("features", contents)
    except ValueError as error:
        raise FixError(f"{file}: {error}") from None
