"""From video files to a `ClipStore`.

`layouts` finds the videos (`official` those of published data sets), `splits` parts them, `sampling` chooses
their frames, `decode` reads them, `build` runs it all.
"""
