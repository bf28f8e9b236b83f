"""From videos to a `ClipStore`.

`listing` and `official` find videos, `splits` assigns splits, `sampling` chooses frames, `decode` decodes them in
processes of `pool`, and `build` writes the store. `items` and `motion` write data set objects and built-in sets.
"""
