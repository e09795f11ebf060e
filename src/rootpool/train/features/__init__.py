"""Feature maps of the frozen stages of a network: computed once and kept on disk."""

from .cache import CachedFeatures, FeatureCache
from .extract import Views, cache_features

__all__ = ["CachedFeatures", "FeatureCache", "Views", "cache_features"]
