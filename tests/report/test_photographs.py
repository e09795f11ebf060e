import numpy as np
from PIL import Image

from rootpool.report import Photographs, draw_examples, draw_pairs


def test_confused_pairs_with_an_example_of_each(tmp_path):
    paths = []
    for k in range(6):
        paths.append(str(tmp_path / f"{k}.png"))
        Image.new("RGB", (300 + k, 200), (40 * k, 0, 0)).save(paths[-1])
    found = Photographs(
        lambda k: Image.open(paths[k]),
        [0, 0, 0, 1, 1, 2],
        [1, 1, 0, 0, 1, 2],
        ["wren", "robin", "owl"],
    )
    assert found.confused() == [(0, 1, 2), (1, 0, 1)]
    assert (found.first(0, 1), found.first(1, 1), found.first(2, 0)) == (0, 4, None)
    assert found.picture(3).shape[1] == 240
    figure = draw_pairs(found)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["wren, taken for (2 ×)", "robin", "robin, taken for (1 ×)", "wren"]
    assert all(axes.images for axes in figure.axes)
    answers = [[(1, 0.75), (0, 0.25)], [(2, 1.0)]]
    for maps in (None, [np.eye(2), -np.eye(2)]):
        figure = draw_examples(found, [0, 5], answers, maps)
        drawn = [axes for axes in figure.axes if axes.images]
        photographs = [axes for axes in drawn if axes.get_title()]
        assert [axes.get_title() for axes in photographs] == ["wren", "owl"]
        assert [axes.get_xlabel() for axes in photographs] == [
            "robin 75%\n▸ wren 25%",
            "▸ owl 100%",
        ]
        assert len(drawn) == (2 if maps is None else 4)
