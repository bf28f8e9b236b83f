"""The options of `prism reproduce`."""

from typing import Literal

Scale = Literal["full", "small"]
"""The paper's settings, or those for two CPU cores."""
