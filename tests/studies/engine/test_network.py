"""Networks of a study: which trials they make, and what makes two trials the same."""

import pytest

from images import make_image_tree
from rootpool.train import SettingsError, resolve
from studies.engine import training
from studies.engine.network import Network, all_trials
from studies.engine.study import Runs
from studies.paper.command import load_paper


def test_seeds_changes_and_places():
    network = Network("patches", seeds=2, deciding=3)
    assert len(network.trials(Runs(["exact"]))) == 2
    assert len(network.trials(Runs(["exact"], deciding=True))) == 3
    assert len(network.trials(Runs(["exact"], seeds=5))) == 5
    assert network.trials(Runs(["exact"], where=["birds"])) == []
    (trial,) = network.trials(
        Runs(["x"], name="called", change={"model": {"method": "seb"}}, seeds=1)
    )
    assert (trial.label, trial.tags["method"]) == ("called", "x")
    block = Runs(["isqrt-cov"], name="{method}, {iterations}", over={"iterations": [1, 3]}, seeds=1)
    assert {t.label: t.tags["iterations"] for t in network.trials(block)} == {
        "isqrt-cov, 1": 1,
        "isqrt-cov, 3": 3,
    }
    options = [resolve(t.config).model.method_options for t in network.trials(block)]
    assert options == [{"iterations": 1}, {"iterations": 3}]
    assert resolve(trial.config).model.method == "seb"


def test_the_first_of_two_runs_with_a_label_is_taken():
    study, network = load_paper(), Network("patches", seeds=1)
    found = all_trials(study, network, ["double", "compared"])
    labels = [trial.label for trial in found]
    assert len(labels) == len(set(labels))
    assert {t.tags.get("precision") for t in found if t.label == "mpn-cov"} == {"float64"}


def test_a_method_of_the_studies_changes_the_key_with_its_code(monkeypatch):
    network = Network("patches", seeds=1)
    ours, other = network.trials(Runs(["newton-exact", "exact"]))
    before = ours.key, other.key
    code = training._own_methods()
    monkeypatch.setattr(training, "_own_methods", lambda: code + "# another")
    assert ours.key != before[0]
    assert other.key == before[1]


def test_data_decide_on_the_recipes(tmp_path):
    data = make_image_tree(tmp_path / "images", classes=3, per_class=4)
    assert Network.for_data(str(data)).family == "alexnet-imagenet"
    assert Network.for_data(None).family == "patches-norm"  # as the paper's networks
    with pytest.raises(SettingsError, match="does not say which recipes to use; choose them with"):
        Network.for_data(str(tmp_path))
