"""An introduction to the statements, for readers who have neither the paper nor the code at hand."""

__all__ = ["INTRODUCTION"]

INTRODUCTION = (
    "A convolutional network ends in a feature map: C channels at N positions, a matrix X. Global "
    "average pooling keeps the mean of each channel. Global covariance pooling keeps how channels "
    "vary together: the covariance P = X̄ X̄ᵀ / N of the centred features, or rather its matrix "
    "square root Q = P^½, which shrinks the few directions that would otherwise dominate. The classifier "
    "gets Q, so training needs the gradient of a matrix square root.",
    "There are two ways to compute the root. The first is Newton-Schulz iteration: a few products of "
    "matrices come close to the root (iSQRT-COV). The second is to decompose P = U diag(λ) Uᵀ and to take "
    "the root of each eigenvalue (MPN-COV). That is exact, but the textbook gradient of the eigenvectors "
    "contains the kernel K_ij = 1 / (λ_i − λ_j), which is infinite where two eigenvalues are equal. The "
    "paper asks why the approximate root trains better than the accurate one, and finds that this kernel "
    "is to blame. Its remedies bound the kernel (SVD-Trunc), or replace it by that of power iteration "
    "(SVD-PI), by a Taylor polynomial (SVD-Taylor) or by a Padé approximant (SVD-Pade). The last three "
    "are functions of the ratio x = λ_j / λ_i, since K_ij = (1/λ_i) · 1/(1 − x).",
    "Each statement below is a function that runs. It computes the numbers and the picture, and a test "
    "asserts that the statement holds.",
)
