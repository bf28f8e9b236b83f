"""Reproduction: the paper's tables and figures by the verbs, one after the other, which meet in files as ever."""
