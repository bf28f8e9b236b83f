"""Reproduction of the paper's tables and figures by the verbs, one after the other, through their files."""
