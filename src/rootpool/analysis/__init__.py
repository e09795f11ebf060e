"""Measures, statistics, plots and pages: what happened in a training, and how sure we are of it."""
