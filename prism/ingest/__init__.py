"""From video files to a `ClipStore`.

`layouts` finds the videos, `splits` parts them, `sampling` chooses their frames, `decode` reads them,
`build` runs it all.
"""
