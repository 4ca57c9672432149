#!/usr/bin/env python3
"""Fit the polynomial of Fast::upper (kernels_src/pointwise/math_fast.cuh).

    python tools/fit_normal.py          the coefficients as f32, and the largest error

p(z) = log2(1 - normal(z)) on 0 ... 6.5 in degree 7. 2^p has a small relative error where p has a small
absolute one, so this is least squares whose weights grow where the error is large (Lawson), until all
extrema are alike. The leading coefficient is negative: beyond the interval 2^p goes to 0.
"""
import math

import numpy as np

DEGREE, END, POINTS = 7, 6.5, 1000


def fitted() -> np.ndarray:
    """Coefficients of z^0, z^1, ..."""
    x = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    want = np.log2([math.erfc((1 + v) * END / 2 * 0.5 ** 0.5) / 2 for v in x])
    powers, weights, found = np.polynomial.chebyshev.chebvander(x, DEGREE), np.ones(POINTS), []
    for _ in range(600):
        weights, root = weights / weights.sum(), np.sqrt(weights / weights.sum())
        series = np.linalg.lstsq(powers * root[:, None], want * root, rcond=None)[0]
        error = np.abs(powers @ series - want)
        found.append((error.max(), tuple(series)))
        weights = weights * error / error.max()
    of_x = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(min(found)[1]))
    return of_x(np.polynomial.Polynomial([-1, 2 / END])).coef


def main():
    rounded = fitted().astype(np.float32)
    z = np.linspace(0, END, 200001)
    want = np.array([math.erfc(v * 0.5 ** 0.5) / 2 for v in z])
    got = np.exp2(np.polynomial.polynomial.polyval(z, rounded.astype(float)))
    print(*(f"z^{i}: {c:.9g}" for i, c in enumerate(rounded)), sep="\n")
    print(f"relative error at most 2^{math.log2(np.abs(got / want - 1).max()):.2f}")


if __name__ == "__main__":
    main()
