"""Deep CCA on two halves of photographs, with fewer samples in a batch than dimensions.

    python examples/deep_cca.py

Two networks look at the left and at the right half of the same patch, and learn features that correlate.
The loss whitens both, which is where other code becomes NaN: with 24 samples of 32 features all
covariances are singular, many eigenvalues are equal, and the gradient of an eigendecomposition divides by
their differences. Here nothing does, and a ridge says how much of the noise to trust.
"""

import torch
from torch import nn

from rootpool.linalg import canonical_correlations
from rootpool.train.data import photo_patches

FEATURES, BATCH, STEPS, RIDGE = 32, 24, 120, 1e-2

torch.manual_seed(0)
splits = photo_patches()


def views(images):
    """Left and right half of each patch, as two sets of vectors."""
    patches = torch.stack([image[0] for image, _ in images])
    return patches[..., :14].flatten(1), patches[..., 14:].flatten(1)


def network():
    return nn.Sequential(nn.Linear(28 * 14, 128), nn.Tanh(), nn.Linear(128, FEATURES))


def held_out():
    """The four leading correlations of patches that were not trained on."""
    with torch.no_grad():
        return canonical_correlations(left(test[0]), right(test[1]), RIDGE)[:4]


train, test = views(splits.train), views(splits.val)
left, right = network(), network()
parameters = [*left.parameters(), *right.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3, weight_decay=1e-3)
print(f"{BATCH} samples of {FEATURES} features")
print("held-out correlations before:", " ".join(f"{c:.2f}" for c in held_out().tolist()))
for step in range(STEPS):
    batch = torch.randint(len(train[0]), (BATCH,))
    loss = -canonical_correlations(left(train[0][batch]), right(train[1][batch]), RIDGE).sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 10.0, error_if_nonfinite=True)  # an error, were it NaN
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step:3}: sum of correlations {-loss.item():.2f} of at most {BATCH - 1}")
print("held-out correlations after: ", " ".join(f"{c:.2f}" for c in held_out().tolist()))
