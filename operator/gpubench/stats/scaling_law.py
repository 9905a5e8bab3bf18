# SPDX-License-Identifier: Apache-2.0
"""How throughput grows with workers: a law fitted to the worker counts of one line, and how far it can be trusted.

The law is the cost of a ring all-reduce (P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69, 2009), which is
what Horovod does: n workers send 2 (n - 1) messages, each with one n-th of the gradients. A step of one worker, which
takes t, takes with n of them, in units of t(1),

    t(n) = n X(1) / X(n) = 1 + volume * 2 (n - 1) / n + messages * 2 (n - 1),    volume, messages >= 0

The first term is soon as large as it gets. The second grows as Amdahl's serial share does (AFIPS 30, 1967), and stands
for that, too, on a line of strong scaling; all that was published, and all that is checked here, is weak scaling. Of
the laws that `make bench-scaling-law` compares on the published tables this one has the smallest median error.

What so few points leave open is averaged over instead of chosen (a posterior; A. Gelman et al., "Bayesian Data
Analysis", 3rd ed., 2013, chapters 3 and 5). What each term costs at the largest measured count has a half-Cauchy prior
(A. Gelman, Bayesian Anal. 1, 2006), the variance of the logarithm of throughput about the law a scaled inverse
chi-squared one, X(1) a flat one in its logarithm, so that units do not matter. Given both terms, the next throughput
then has Student's t in its logarithm; a prediction is the mixture over a grid of terms, its estimate the median. The
priors are experience with published lines, `PUBLISHED`; each line is checked with what other machines taught.

Two worker counts do not determine a law: of the K80s of Parkopedia (2018) nominal 95 % intervals held 8 of 18. Only
other lines of the same pool can say how far off two counts are there; without them there is no number. Must not happen:
an estimate above linear scaling from the next smaller measured count, however badly the law fits; an interval that
reaches further above that, or above linear scaling from the best, than runs scatter; a throughput that is not positive.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gpubench import units, values
from gpubench.stats.intervals import CONFIDENCE

#: Worker counts that determine a law.
COUNTS_MIN = 3
#: Lines of the same pool, each with so many counts, from which may be learnt how far off a law of two counts is;
#: with three, nominal 95 % intervals of Parkopedia's tables held 91 %.
SIBLINGS_MIN = 5
#: Beyond so many times the largest measured worker count, or below the smallest over it, a prediction is called far.
REACH = 2

#: Of runs about the law so far above linear scaling, five times `PUBLISHED.scatter`: none of the published is beyond.
_BEYOND_LINEAR = 0.07

_Array = NDArray[np.float64]
#: Scatters that other lines of a pool are asked about.
_SCATTERS = tuple(0.005 * math.sqrt(2) ** step for step in range(15))


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What so many workers of a line did together. Any unit: an efficiency times its workers is one, too."""

    workers: int
    throughput: float

    @property
    def each(self) -> float:
        return self.throughput / self.workers


@dataclass(frozen=True, kw_only=True)
class Experience:
    """What is taken for likely before a line is looked at."""

    loss: float  # median of what a term costs at the largest measured count, in units of one worker's time
    scatter: float  # of the logarithm of throughput about the law
    freedom: float  # how many observations the scatter is worth


#: From the lines of jobs/studies/published/tensorflow-2017.csv, by `make bench-scaling-law`, which prints them.
PUBLISHED = Experience(loss=0.045, scatter=0.014, freedom=3.5)


class Reach(Enum):
    """Where a predicted worker count lies."""

    WITHIN = "between measured worker counts"
    BEYOND = "extrapolated by no more than a factor of 2"
    FAR = "extrapolated by more than a factor of 2"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What one run with so many workers would probably do. The interval's middle is a median."""

    throughput: values.Interval
    reach: Reach


@dataclass(frozen=True, kw_only=True)
class Law:
    """The law of a line, with everything that is not known about it."""

    speeds: tuple[Speed, ...]  # by workers
    experience: Experience

    def at(self, workers: int, confidence: float = CONFIDENCE) -> Prediction:
        predicted = _predicted(self.speeds, workers, self.experience)
        fewer = [speed for speed in self.speeds if speed.workers <= workers]
        best = max((speed.each for speed in fewer), default=math.inf)
        nearest = max((speed.each for speed in fewer if speed.workers == fewer[-1].workers), default=math.inf)
        linear, above = workers * nearest, min(best * (1 + PUBLISHED.scatter), nearest * (1 + _BEYOND_LINEAR))
        middle, low, high = (
            workers / math.exp(predicted.quantile(share)) for share in (0.5, (1 + confidence) / 2, (1 - confidence) / 2)
        )
        throughput = values.Interval(mean=min(middle, linear), low=min(low, linear), high=min(high, workers * above))
        return Prediction(throughput=throughput, reach=self.reach(workers))

    def reach(self, workers: int) -> Reach:
        least, most = self.speeds[0].workers, self.speeds[-1].workers
        if least <= workers <= most:
            return Reach.WITHIN
        return Reach.BEYOND if least <= REACH * workers and workers <= REACH * most else Reach.FAR


def fit(
    speeds: Sequence[Speed], *, siblings: Sequence[Sequence[Speed]] = (), experience: Experience = PUBLISHED
) -> Law | str:
    """The law of one line, or why there is none, and what would give one.

    `siblings` are other lines of the same pool; only a line of two counts needs them.
    """
    counts = sorted({speed.workers for speed in speeds})
    listed = f"{units.counted(len(counts), 'worker count')} ({', '.join(map(str, counts))})"
    found: Experience | None = experience
    if len(counts) < 2:
        return f"{listed} says nothing about scaling: measure {COUNTS_MIN} of this line"
    if len(counts) < COUNTS_MIN:
        found = of_siblings(siblings, experience=experience)
    if found is None:
        return (
            f"{listed} do not determine how it scales: measure a third one, or {COUNTS_MIN} worker counts each of "
            f"{SIBLINGS_MIN} other lines on the same pool"
        )
    return Law(speeds=_ordered(speeds), experience=found)


def of_siblings(lines: Sequence[Sequence[Speed]], *, experience: Experience = PUBLISHED) -> Experience | None:
    """The scatter that makes the lines' left-out counts likeliest (empirical Bayes); None with too few lines."""
    telling = [line for line in lines if len({speed.workers for speed in line}) >= COUNTS_MIN]
    if len(telling) < SIBLINGS_MIN:
        return None
    candidates = [replace(experience, scatter=scatter) for scatter in _SCATTERS]
    return max(candidates, key=lambda candidate: math.fsum(likelihood(tuple(line), candidate) for line in telling))


@functools.lru_cache(maxsize=4096)  # every line of a pool is a sibling of many
def likelihood(line: tuple[Speed, ...], experience: Experience) -> float:
    """Sum of the log predictive densities of each worker count of a line, given the line's others.

    Those count that the others predict without going far (cross-validation; S. Geisser and W. F. Eddy, "A predictive
    approach to model selection", J. Am. Stat. Assoc. 74, 1979).
    """
    total = 0.0
    for left_out in line:
        rest = _ordered(one for one in line if one.workers != left_out.workers)
        if Law(speeds=rest, experience=experience).reach(left_out.workers) is not Reach.FAR:
            total += _predicted(rest, left_out.workers, experience).log_density(-math.log(left_out.each))
    return total


def _ordered(speeds: Iterable[Speed]) -> tuple[Speed, ...]:
    return tuple(sorted(speeds, key=lambda speed: speed.workers))


# --- the posterior ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Mixture:
    """Student's t distributions of the logarithm of one worker's time for a sample, one for each pair of terms."""

    locations: _Array
    scales: _Array
    weights: _Array
    freedom: float

    def quantile(self, share: float) -> float:
        """Below which this share lies: between the least and the greatest of the parts' own."""
        parts = self.locations + self.scales * scipy.special.stdtrit(self.freedom, share)
        low, high = float(parts.min()), float(parts.max())
        return float(scipy.optimize.brentq(lambda value: self._below(value) - share, low, high)) if low < high else low

    def log_density(self, value: float) -> float:
        freedom, distances = self.freedom, (value - self.locations) / self.scales
        constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
        parts = constant - (freedom + 1) / 2 * np.log1p(distances**2 / freedom) - np.log(self.scales)
        return float(scipy.special.logsumexp(parts, b=self.weights))

    def _below(self, value: float) -> float:
        return float(self.weights @ scipy.special.stdtr(self.freedom, (value - self.locations) / self.scales))


def _predicted(speeds: Sequence[Speed], workers: int, experience: Experience) -> _Mixture:
    """The posterior predictive distribution at a worker count.

    Given the terms, the logarithms of the measured times less that of the law are a normal sample with unknown mean and
    variance. Its squares S and number m give the terms their weight, (freedom scatter^2 + S)^(-(freedom + m - 1) / 2),
    and the next one Student's t (Gelman et al., section 3.3).
    """
    most = max(speed.workers for speed in speeds)
    law = _law(np.array([speed.workers for speed in speeds]), most, experience)  # one row for each speed
    rest = np.array([[-math.log(speed.each)] for speed in speeds]) - law
    means, count = rest.mean(axis=0), len(speeds)
    freedom = experience.freedom + count - 1
    variances = (experience.freedom * experience.scatter**2 + np.square(rest - means).sum(axis=0)) / freedom
    logarithms = -freedom / 2 * np.log(variances)
    weights = np.exp(logarithms - logarithms.max())
    return _Mixture(
        locations=means + _law(np.array([workers]), most, experience)[0],
        scales=np.sqrt(variances * (1 + 1 / count)),
        weights=weights / weights.sum(),
        freedom=freedom,
    )


#: Of a half-Cauchy distribution in units of its scale: the middles of so many equally likely parts.
_PARTS = 16
_QUANTILES = np.tan((np.arange(_PARTS) + 0.5) / _PARTS * math.pi / 2)
_VOLUMES, _MESSAGES = np.repeat(_QUANTILES, _PARTS), np.tile(_QUANTILES, _PARTS)


def _law(workers: NDArray[Any], most: int, experience: Experience) -> _Array:
    """The logarithm of t(n): rows are worker counts, columns pairs of terms, up to what each may cost there."""
    volume = experience.loss * (1 - 1 / workers) / (1 - 1 / most)
    messages = experience.loss * (workers - 1.0) / (most - 1)
    return np.asarray(np.log1p(np.multiply.outer(volume, _VOLUMES) + np.multiply.outer(messages, _MESSAGES)))
