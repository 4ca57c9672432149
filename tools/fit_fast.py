#!/usr/bin/env python3
"""Fit the polynomials of Fast (kernels_src/pointwise/math_fast.cuh).

    python tools/fit_fast.py            the coefficients as f32, and the largest error of each

Every fit is least squares whose weights grow where the error is large against what is allowed there (Lawson),
until all extrema are alike. SHARE is the error that a result of f32 may have for its scale
(tests/support/check/compare.py).
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable

import numpy as np

POINTS, ROUNDS, SHARE = 1200, 400, 10 * 2.0 ** -23


@dataclass(frozen=True)
class Fit:
    """A polynomial of ``degree`` for ``wanted`` on 0 ... ``end``. ``value``: what it is part of, from x and
    it, which may be off by ``allowed`` (of x)."""
    degree: int
    end: float
    wanted: Callable
    value: Callable
    allowed: Callable

    def fitted(self) -> np.ndarray:
        """Coefficients of x^0, x^1, ..."""
        at = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
        x = (1 + at) * self.end / 2
        want = self.wanted(x)
        nudge = 1e-7 * np.maximum(np.abs(want), 1)           # by how much the polynomial may be off
        room = self.allowed(x) * nudge / np.abs(self.value(x, want + nudge) - self.value(x, want))
        powers, weights, found = np.polynomial.chebyshev.chebvander(at, self.degree), np.ones(POINTS), []
        for _ in range(ROUNDS):
            root = np.sqrt(weights / weights.sum()) / room
            series = np.linalg.lstsq(powers * root[:, None], want * root, rcond=None)[0]
            error = np.abs(powers @ series - want) / room
            found.append((error.max(), tuple(series)))
            weights = weights * error / error.max() + 1e-300
        of_x = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(min(found)[1]))
        return of_x(np.polynomial.Polynomial([-1, 2 / self.end])).coef

    def error(self, coefficients) -> float:
        """The largest, in what is allowed."""
        x = np.linspace(0, self.end, 20001)[1:]
        got = np.polynomial.polynomial.polyval(x, coefficients.astype(float))
        return (np.abs(self.value(x, got) - self.value(x, self.wanted(x))) / self.allowed(x)).max()


def upper(z):
    """1 - normal(z)."""
    return np.array([math.erfc(v * 0.5 ** 0.5) / 2 for v in np.atleast_1d(z)]).reshape(np.shape(z))


FITS = {
    # upper(z) = 2^p. Its error counts beside 1 + upper: the scale of gelu(-z) = -z * upper(z) has z, too. Far
    # out, where that allows all, it is below 2^-15 of the result, 1/16 of the rounding of f16. The leading
    # coefficient is negative: beyond the interval 2^p goes to 0.
    "upper": Fit(7, 6.5, lambda z: np.log2(upper(z)), lambda z, p: np.exp2(p),
                 lambda z: np.minimum(SHARE * (1 + upper(z)), upper(z) * 2.0 ** -15)),
    # less of it where x = exp(-large) is off itself
    "log1p": Fit(7, 1.0, lambda x: np.log1p(x) / x, lambda x, p: x * p,
                 lambda x: (1 + x) / 10 * SHARE * np.log1p(x)),
    # of -x: expm1 is asked for negative numbers only
    "expm1": Fit(4, 0.5, lambda x: np.expm1(-x) / -x, lambda x, p: -x * p, lambda x: -SHARE * np.expm1(-x)),
}


def main():
    for name, fit in FITS.items():
        rounded = fit.fitted().astype(np.float32)
        print(name, *(f"x^{i}: {c:.9g}" for i, c in enumerate(rounded)), sep="\n    ")
        print(f"    error at most {fit.error(rounded):.3f} of what is allowed")


if __name__ == "__main__":
    main()
