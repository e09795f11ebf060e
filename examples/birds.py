"""Birds on a laptop: covariance roots of a frozen network's features against their averages.

    python examples/birds.py CUB_200_2011 [epochs]

The data are CUB-200-2011 as its authors lay it out, or any folder with train/ and test/. Needs
pip install 'rootpool[birds]'. In a clone, ``python -m studies birds`` is the same with seeds and tables.
"""

import sys

import torch
from torch import nn

from rootpool.models import PooledClassifier, Stages
from rootpool.models.efficientnet_lite import efficientnet_lite, efficientnet_lite_transform
from rootpool.nn import AveragePool, BranchPool, CovariancePool, Length
from rootpool.train.data import decode_image, open_splits
from rootpool.train.features import cache_features

LATE, LAST = STAGES = [
    "blocks.5",
    "global_pool.pool",
]  # 192 x 7 x 7, and the average of 1280 channels


def heads(channels):
    """The strong first-order head, and the root of the covariance of an earlier stage."""
    average = AveragePool(channels[LAST], scaling=Length(4, power=0.5))
    root = CovariancePool(channels[LATE], reduction=128, output="isometric", scaling=Length(4))
    return {"average": BranchPool([(LAST, average)]), "root": BranchPool([(LATE, root)])}


def fit(pool, features, labels, classes, epochs, batch_size=64):
    classifier = nn.Linear(pool.out_features, classes)
    nn.init.zeros_(classifier.weight)
    rates = [(pool, 0.4), (classifier, 1.0)]
    groups = [{"params": list(m.parameters()), "lr": lr} for m, lr in rates if list(m.parameters())]
    optimizer = torch.optim.SGD(groups, momentum=0.9, nesterov=True, weight_decay=1e-4)
    batches = max(1, len(labels) // batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    for epoch in range(epochs):
        for batch in torch.randperm(len(labels)).tensor_split(batches):
            logits = classifier(pool(features.batch(batch)))
            loss = nn.functional.cross_entropy(logits, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"  epoch {epoch + 1} of {epochs}, last loss {loss.item():.3f}", flush=True)
    return classifier


def main(data, epochs=12):
    torch.manual_seed(0)
    transform = efficientnet_lite_transform(224, crop_pct=1.0)
    splits = open_splits(data, train_transform=transform, val_transform=transform)
    backbone = Stages(efficientnet_lite(num_classes=0).eval(), STAGES)
    files = [[split.path(k) for k in range(len(split))] for split in (splits.train, splits.val)]
    train, test = (cache_features(backbone, f, transform, "features") for f in files)
    for name, pool in heads(train.channels).items():
        features = train.select(pool.stages), test.select(pool.stages)
        classifier = fit(pool, features[0], splits.train.labels, len(splits.classes), epochs)
        model = PooledClassifier(backbone, pool, classifier).eval()  # for images, not features
        with torch.inference_mode():
            batches = torch.arange(len(test)).split(64)
            logits = torch.cat([model.forward_head(features[1].batch(b)) for b in batches])
            photograph = transform(decode_image(splits.val.path(0))).unsqueeze(0)
            answer = splits.classes[model(photograph).argmax()]
        accuracy = (logits.argmax(1) == splits.val.labels).float().mean()
        print(f"{name}: {accuracy:.1%} of {len(test)} test images right; the first is a {answer}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
