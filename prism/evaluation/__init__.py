"""Evaluation: fresh networks are trained on a set, and scored on real clips."""
