"""Evaluation: what fresh networks learn from a set."""
