"""Training: data, recipes and the hybrid protocol of the paper."""
