"""Backbones with covariance pooling."""
