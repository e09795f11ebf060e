"""The theory behind the paper and behind our gradient: statements that run; study.yaml has their words."""
