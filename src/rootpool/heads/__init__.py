"""Heads on frozen features: cached once, trained in seconds each. Needs the extra ``train``."""
