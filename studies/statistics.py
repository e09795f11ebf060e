"""The mean of paired differences over several studies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

from rootpool.report.statistics import PairedDifference

__all__ = ["pooled_difference"]


def pooled_difference(differences: Sequence[PairedDifference]) -> PairedDifference | None:
    """The mean over the pairs of several studies, which may differ in spread; None without intervals.

    Student's t with the degrees of freedom of Welch and Satterthwaite. Studies are not weighed by their
    precision: weights that are estimated from few pairs make the interval too narrow. A study without an
    interval of its own is left out.

    >>> one, other = (PairedDifference(m, m - 1, m + 1, 0.5, 10) for m in (1.0, 3.0))
    >>> pooled = pooled_difference([one, other])
    >>> f"{pooled.mean:.2f} ± {pooled.high - pooled.mean:.2f}, {pooled.n} pairs"
    '2.00 ± 0.66, 20 pairs'
    """
    known = [(d.mean, d.spread, d.n) for d in differences if d.spread]
    total = sum(n for *_, n in known)
    if not known:
        return None
    mean = sum(n * mean for mean, _, n in known) / total
    parts = [(n * spread**2 / total**2, n) for _, spread, n in known]
    variance = sum(part for part, _ in parts)
    student = stats.t(variance**2 / sum(part**2 / (n - 1) for part, n in parts))
    reach = float(student.ppf(0.975)) * math.sqrt(variance)
    p_value = 2 * float(student.sf(abs(mean) / math.sqrt(variance)))
    return PairedDifference(mean, mean - reach, mean + reach, p_value, total)
