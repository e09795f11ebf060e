"""Feature maps of the frozen stages of a network: computed once and kept on disk."""

from .cache import CachedFeatures, FeatureCache
from .extract import cache_features

__all__ = ["CachedFeatures", "FeatureCache", "cache_features"]
