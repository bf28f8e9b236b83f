"""From video files to a `ClipStore`.

`listing` finds the videos (`official` those of published data sets), `splits` cuts them, `sampling` chooses their
frames, `decode` decodes these in the processes of `pool`, and `build`, the verb, runs it all. `motion` draws the
built-in videos.
"""
