"""From video files to a `ClipStore`.

`listing` finds the videos (`official` those of published data sets), `splits` cuts them, `sampling` chooses their
frames, `decode` decodes these in processes of `pool`; `build` is the verb. `motion` draws the built-in videos.
"""
