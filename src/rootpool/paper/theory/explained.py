"""The statements in words, for a reader who has neither the paper nor the code at hand."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXPLAINED", "INTRODUCTION", "Explanation"]


@dataclass(frozen=True)
class Explanation:
    """What a statement is about: a title, paragraphs before the verdict, a caption for the picture."""

    title: str
    text: tuple[str, ...]
    caption: str


INTRODUCTION = (
    "A convolutional network ends in a feature map: C channels at N positions, a matrix X. Global "
    "average pooling keeps the mean of each channel. Global covariance pooling keeps how channels "
    "vary together: the covariance P = X̄ X̄ᵀ / N of the centred features, and of it the matrix "
    "square root Q = P^½, which shrinks the few directions that would otherwise rule. Q goes to the "
    "classifier, and the network is trained through it, so the gradient of a matrix square root is "
    "needed.",
    "There are two ways to the root. Newton-Schulz iteration multiplies matrices a few times and gets "
    "close to it (iSQRT-COV). Or one decomposes P = U diag(λ) Uᵀ and takes the root of each "
    "eigenvalue (MPN-COV): exact, but the textbook gradient of the eigenvectors holds the kernel K "
    "with K_ij = 1 / (λ_i − λ_j), which is infinite where two eigenvalues are equal. The paper asks "
    "why the approximate root trains better than the accurate one, finds that this kernel is to "
    "blame, and tames it in several ways: cut it off (SVD-Trunc), replace it by power iteration "
    "(SVD-PI), by a Taylor polynomial (SVD-Taylor) or by a Padé approximant (SVD-Pade) in the ratio x "
    "= λ_j / λ_i, since K_ij = (1/λ_i) · 1/(1 − x).",
    "Each statement below is a function that runs: its numbers and pictures are computed, and a test "
    "asserts that it holds.",
)

EXPLAINED: dict[str, Explanation] = {
    "theory:pade-rank": Explanation(
        "Padé approximants of 1/(1 − x) are 1/(1 − x)",
        (
            "A Padé approximant is the quotient of two polynomials whose series agrees with that of a "
            "function as far as possible. Its coefficients solve a linear system made of the "
            "coefficients of the series. The series of 1/(1 − x) is 1 + x + x² + …: every coefficient "
            "is one, so every row of the system reads the same. One equation is left for all "
            "unknowns. That is no accident: the function is itself a quotient of polynomials, and all "
            "those solutions are it, with a common factor above and below.",
        ),
        "Unknown coefficients of the denominator, and the rank of the system that is to determine them.",
    ),
    "theory:pade-coefficients": Explanation(
        "Solved in floating point, the coefficients are rounding noise",
        (
            "A computer solves that singular system all the same, because rounding makes it look "
            "regular. The coefficients that come out depend on the digits it computes with. Their "
            "quotient is still 1/(1 − x), up to rounding, but at x = 1, where two eigenvalues are "
            "equal, above and below are both noise, and the value has arbitrary size and sign. A "
            "well-posed SVD-Pade is therefore 1 / (λ_i − λ_j) itself with a stated value at ties, "
            "which is what rootpool has under that name.",
        ),
        "Three coefficients of the approximant of degree 100, by the precision of the solver.",
    ),
    "theory:power-iteration-rate": Explanation(
        "Power iteration is as slow as λ₂/λ₁ is close to one",
        (
            "Power iteration multiplies a vector by the matrix again and again and scales it to "
            "length one. Its part along each eigenvector grows with the eigenvalue, so the leading "
            "one wins, by the factor λ₂/λ₁ a step over the next. The covariances of a network have "
            "eigenvalues that are close to each other; with equal ones there is no leading "
            "eigenvector to converge to.",
        ),
        "Distance to the leading eigenvector (solid), and the rate that the ratio predicts (dotted).",
    ),
    "theory:power-iteration-is-taylor": Explanation(
        "Power iteration sends back the Taylor polynomial",
        (
            "Differentiating K steps of power iteration that start at the exact eigenvector sums the "
            "same geometric series as the Taylor polynomial of the kernel with K terms: 1 + x + … to "
            "the power K − 1, for x = λ_j / λ_i. The two remedies are one; what differs is only how "
            "many terms each is usually given.",
        ),
        "Relative difference between the gradient through power iteration and the series.",
    ),
    "theory:ties": Explanation(
        "At ties a kernel alone gives no gradient of the root",
        (
            "With fewer positions than channels (49 against 256 in a ResNet) most eigenvalues of "
            "every covariance are zero, and equal. The product of the kernel and the root's own "
            "difference, (√λ_i − √λ_j) / (λ_i − λ_j), has the limit 1 / (2√λ) there. An infinite "
            "kernel gives NaN; a kernel that is cut off gives zero times a large number, which is "
            "zero and not the limit. If kernel and root are put together before anything is "
            "evaluated, the limit can be put in. All methods of rootpool do that; it leaves what a "
            "method does away from ties as it is.",
        ),
        "Error of the gradient with respect to the features, for four kinds of spectra.",
    ),
    "theory:exact-gradient": Explanation(
        "The gradient of a matrix root needs no kernel",
        (
            "Put together, (√λ_i − √λ_j) / (λ_i − λ_j) is 1 / (√λ_i + √λ_j): nothing is subtracted, "
            "and nothing is infinite as long as one of the two is positive. With respect to the "
            "features the coefficients are s_j / (s_i + s_j) with the singular values s of the "
            "centred features, numbers between zero and one. There is nothing to cut off, expand or "
            "approximate. This is the method ‘exact’, the default of rootpool.",
        ),
        "Error of the gradient of a root, against 50 digits, as two eigenvalues approach each other.",
    ),
}
