"""Birds on a laptop: covariance roots of a frozen network's features against their averages.

    python examples/birds.py CUB_200_2011 [epochs]

The data are CUB-200-2011 as its authors lay it out, or any folder with train/ and test/. Needs
pip install 'rootpool[birds]'. ``rootpool train birds-head`` does the same as a run that can be resumed, and
in a clone ``python -m studies birds`` adds seeds and tables.
"""

import sys

import torch
from torch import nn

from rootpool.models import create_model, parameter_groups
from rootpool.nn import Branch, Length
from rootpool.train.data import Preprocessing, decode_image, imagenet_transforms, open_splits
from rootpool.train.features import cache_features

# The strong first-order head, on the average of 1280 channels, and the root of the covariance of 192 x 7 x 7.
HEADS = {
    "average": Branch("average", "gap", scaling=Length(4, power=0.5)),
    "root": Branch("blocks.5", "exact", reduction=128, scaling=Length(4)),
}


def fit(model, features, labels, epochs, batch_size=64):
    groups = parameter_groups(model, lr=1.0, pool_lr=0.4)
    optimizer = torch.optim.SGD(groups, momentum=0.9, nesterov=True, weight_decay=1e-4)
    batches = max(1, len(labels) // batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    model.train()
    for epoch in range(epochs):
        for batch in torch.randperm(len(labels)).tensor_split(batches):
            logits = model.forward_head(features.batch(batch))
            loss = nn.functional.cross_entropy(logits, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"  epoch {epoch + 1} of {epochs}, last loss {loss.item():.3f}", flush=True)


def main(data, epochs=12):
    torch.manual_seed(0)
    look = Preprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bicubic")
    _, transform = imagenet_transforms(224, 224, look)
    splits = open_splits(data, train_transform=transform, val_transform=transform)
    files = [[split.path(k) for k in range(len(split))] for split in (splits.train, splits.val)]
    for name, branch in HEADS.items():
        model = create_model(
            "tf_efficientnet_lite0", [branch], len(splits.classes), weights="packaged"
        )
        model.freeze("backbone")
        train, test = (cache_features(model.backbone, f, transform, "features") for f in files)
        fit(model, train, splits.train.labels, epochs)
        model.eval()
        with torch.inference_mode():
            batches = torch.arange(len(test)).split(64)
            logits = torch.cat([model.forward_head(test.batch(b)) for b in batches])
            photograph = transform(decode_image(splits.val.path(0))).unsqueeze(0)
            answer = splits.classes[model(photograph).argmax()]  # of an image, not of features
        accuracy = (logits.argmax(1) == splits.val.labels).float().mean()
        print(f"{name}: {accuracy:.1%} of {len(test)} test images right; the first is a {answer}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
