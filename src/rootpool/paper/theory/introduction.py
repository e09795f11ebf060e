"""What the statements are about, for a reader who has neither the paper nor the code at hand."""

__all__ = ["INTRODUCTION"]

INTRODUCTION = (
    "A convolutional network ends in a feature map: C channels at N positions, a matrix X. Global "
    "average pooling keeps the mean of each channel. Global covariance pooling keeps how channels "
    "vary together: the covariance P = X̄ X̄ᵀ / N of the centred features, or rather its matrix "
    "square root Q = P^½, which shrinks the few directions that would otherwise dominate. Q goes to the "
    "classifier, and the network is trained through it, so the gradient of a matrix square root is "
    "needed.",
    "There are two ways to compute the root. Newton-Schulz iteration multiplies matrices a few times and "
    "gets close to it (iSQRT-COV). Or one decomposes P = U diag(λ) Uᵀ and takes the root of each "
    "eigenvalue (MPN-COV): exact, but the textbook gradient of the eigenvectors contains the kernel K "
    "with K_ij = 1 / (λ_i − λ_j), which is infinite where two eigenvalues are equal. The paper asks "
    "why the approximate root trains better than the accurate one, finds that this kernel is to "
    "blame, and tames it in several ways: cut it off (SVD-Trunc), replace it by power iteration "
    "(SVD-PI), by a Taylor polynomial (SVD-Taylor) or by a Padé approximant (SVD-Pade) in the ratio x "
    "= λ_j / λ_i, since K_ij = (1/λ_i) · 1/(1 − x).",
    "Each statement below is a function that runs: its numbers and pictures are computed, and a test "
    "asserts that it holds.",
)
