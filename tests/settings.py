"""Settings that many tests share."""

from prism.recipes import read_recipe

PAPER = {key: value for key, value in read_recipe("paper")["condense"].items() if key != "method"}
"""The paper's options of `prism condense`: whole key-frames, insertion, an absolute learning rate."""
