"""What a frozen network, or the frozen part of one, makes of images: computed once and kept on disk."""

from .cache import FeatureCache, open_cache
from .extract import Views, cache_features
from .kept import KeptFeatures

__all__ = ["FeatureCache", "KeptFeatures", "Views", "cache_features", "open_cache"]
