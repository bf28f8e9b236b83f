"""Settings that many tests share."""

from prism.recipes import read_recipe

PAPER = read_recipe("paper")["condense"]
"""The paper's options of `prism condense`: whole key-frames, insertion, an absolute learning rate."""
