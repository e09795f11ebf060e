"""The paper's hybrid training in a plain PyTorch loop: one line changes the method, nothing else moves.

    python examples/hybrid_loop.py

Newton-Schulz while the learning rate is high, an accurate root from shortly before its last decay on.
The switch keeps weights and momentum: no parameter, buffer or optimizer state belongs to a method.
(With Lightning: the callback ``rootpool.train.HybridProtocol``.)
"""

import torch
from torch import nn
from torch.nn import functional as F

from rootpool.models import create_model

EPOCHS, MILESTONES, WARM_UP = 6, [3, 5], 1
SWITCH = MILESTONES[-1] - WARM_UP  # the paper: one epoch before the last decay, two for ResNets


def images(count, classes=4):
    """Noise whose neighbouring pixels correlate, by another sign or direction in each class."""
    labels = torch.arange(count) % classes
    noise = torch.randn(count, 1, 29, 29)
    shifted = torch.where(labels[:, None, None, None] < 2, noise[..., 1:, :-1], noise[..., :-1, 1:])
    sign = (1 - 2 * (labels % 2)).view(-1, 1, 1, 1)
    return (noise[..., :-1, :-1] + 0.25 * sign * shifted), labels


def evaluate(model, data):
    model.eval()
    with torch.no_grad():
        wrong = model(data[0]).argmax(1) != data[1]
    model.train()
    return 100 * wrong.float().mean().item()


def momentum_of(optimizer):
    return [state["momentum_buffer"].clone() for state in optimizer.state.values()]


torch.manual_seed(0)
train, test = images(256), images(512)
model = create_model("patchnet", pool="isqrt-cov", num_classes=4)  # the first stage: Newton-Schulz
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, MILESTONES, gamma=0.1)

for epoch in range(EPOCHS):
    if epoch == SWITCH:
        before = momentum_of(optimizer), [p.clone() for p in model.parameters()]
        model.pool.method = "exact"  # this is the hybrid protocol
        after = momentum_of(optimizer), list(model.parameters())
        pairs = (zip(x, y, strict=True) for x, y in zip(before, after, strict=True))
        assert all(torch.equal(a, b) for pair in pairs for a, b in pair)
    for batch in torch.randperm(len(train[1])).split(32):
        loss = F.cross_entropy(model(train[0][batch]), train[1][batch])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0, error_if_nonfinite=True)
        optimizer.step()
    rate = schedule.get_last_lr()[0]
    schedule.step()
    print(
        f"epoch {epoch}: {model.pool.method.name:9} rate {rate:.4f}, last loss {loss.item():.3f}, "
        f"{evaluate(model, test):4.1f} % of the test images wrong"
    )
