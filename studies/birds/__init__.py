"""Heads on frozen features of birds."""
