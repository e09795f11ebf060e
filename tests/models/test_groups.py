from rootpool.models import create_model, parameter_groups


def names_of(model, groups):
    """Which parameters each group has, by name."""
    found = {id(p): name for name, p in model.named_parameters()}
    return {group["name"]: {found[id(p)] for p in group["params"]} for group in groups}


def test_rates_of_the_paper():
    model = create_model("paper/resnet50", "exact", 2)
    groups = parameter_groups(model)
    assert {group["name"]: group["lr"] for group in groups} == {
        "backbone": 1.2e-3,
        "pool": 1.2e-3,  # "6e-3 for the fully-connected layer and 1.2e-3 for the other layers"
        "classifier": 6e-3,
    }
    members = names_of(model, groups)
    assert members["classifier"] == {"classifier.weight", "classifier.bias"}
    assert {name.split(".")[1] for name in members["pool"]} == {"reduction"}
    rates = [group["lr"] for group in parameter_groups(model, 0.5, 0.25, pool_lr=0.125)]
    assert rates == [0.25, 0.125, 0.5]


def test_weight_decay_spares_norms_biases_and_what_timm_names():
    options = {"depth": 1, "reduction": 4, "tokens": "class+patches"}
    model = create_model("vit_tiny_patch16_224", num_classes=2, **options)
    groups = parameter_groups(model, decay_norms=False)
    spared = {p for group in groups if group.get("weight_decay") == 0 for p in group["params"]}
    assert model.backbone.body.pos_embed in spared
    assert all((p.dim() <= 1) == (p in spared) for p in model.classifier.parameters())
    grouped = [id(p) for group in groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
