"""The question of the title: what an approximate root does that an accurate one does not."""
