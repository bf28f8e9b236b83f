"""From video files to a `ClipStore`.

`layouts` finds the videos (`official` those of published data sets), `splits` cuts them, `sampling` chooses their
frames, `decode` decodes these, and `build`, the verb, runs it all. `motion` writes the
built-in videos, which `pairs` and `glyphs` draw with the means of `painting`.
"""
