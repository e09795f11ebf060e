from PIL import Image

from rootpool.train.photographs import Photographs, draw_pairs


def test_confused_pairs_with_an_example_of_each(tmp_path):
    paths = []
    for k in range(6):
        paths.append(str(tmp_path / f"{k}.png"))
        Image.new("RGB", (300 + k, 200), (40 * k, 0, 0)).save(paths[-1])
    found = Photographs(paths, [0, 0, 0, 1, 1, 2], [1, 1, 0, 0, 1, 2], ["wren", "robin", "owl"])
    assert found.confused() == [(0, 1, 2), (1, 0, 1)]
    assert (found.first(0, 1), found.first(1, 1), found.first(2, 0)) == (0, 4, None)
    assert found.picture(3).shape[1] == 240
    figure = draw_pairs(found)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["wren, taken for (2 ×)", "robin", "robin, taken for (1 ×)", "wren"]
    assert all(axes.images for axes in figure.axes)
