"""Reproduction of the paper's tables and figures: a plan of sets and scores, which the verbs make as files."""
