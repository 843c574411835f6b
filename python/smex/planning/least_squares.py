"""Weights of what is told from measurements."""

from __future__ import annotations

from typing import Any

import numpy as np

from smex.errors import SmexImportError


def relative_weights(op: str, features: Any, seconds: Any, ridge: float) -> Any:
    """Returns the weights, none negative, of the least squares of relative errors.

    Args:
        op: who asks, for the message.
        features: of each measurement, float64 ``[n, f]``.
        seconds: of each, above 0, ``[n]``.
        ridge: features that go together in all measurements share what they explain, so that the
            weights serve where one has more than another; against 1 for a measurement.

    Returns:
        ``[f]``.

    Raises:
        SmexImportError: scipy is not installed.
    """
    try:
        from scipy.optimize import nnls
    except ImportError as error:
        raise SmexImportError(
            f"{op}: the package scipy is not installed; pip install scipy"
        ) from error
    relative = features / seconds[:, None]
    scales = np.linalg.norm(relative, axis=0)
    scales[scales == 0] = 1
    wanted = np.concatenate([np.ones(len(seconds)), np.zeros(len(scales))])
    weights, _ = nnls(np.concatenate([relative / scales, ridge * np.eye(len(scales))]), wanted)
    return weights / scales
