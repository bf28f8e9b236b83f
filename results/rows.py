"""Rows of the tables of results: names, the commands that make their sets, and groups."""

EPOCHS = {1: 125, 4: 90, 5: 90, 8: 90, 10: 60, 16: 30, 20: 60, 40: 60, 53: 60}
"""Epochs by videos of each class; results of others, by --epochs, have folders of their own."""
KEYFRAMES = "condense --recipe small --keyframe-scale {} --initial-keyframes {}"
DEFAULT = KEYFRAMES.format(4, 2)
SHORT_SMALL = "condense --recipe small --iterations 400"
SHORT = f"{DEFAULT} --iterations 400"
NCFM = "objectives:CharacteristicFunctions"
PUBLISHED = f"{KEYFRAMES.format(1, 2)} --init noise --metric parameter --insertion gradient"
DM = "condense --recipe small --method dm"
STATIC_DYNAMIC = "condense --recipe small --recipe static-dynamic --iterations 800"
REAL_START = "condense --recipe small --recipe real-start"
HERDING_START = f"{REAL_START} --init HERDING"
PACKED = "condense --recipe small --recipe packed"
SPARSE = "condense --recipe small --recipe sparse"
ROWS = {
    "random": ("random clips", "select --recipe small"),
    "herding": ("herding", "select --recipe small --method herding"),
    "herding-h264": ("herding, in H.264", "select --recipe small --method herding --storage h264"),
    "k-center": ("k-center", "select --recipe small --method k-center"),
    "mean": ("mean clips", f"{KEYFRAMES.format(1, 0)} --iterations 0"),
    "mean-small": ("mean clips, as small", f"{DEFAULT} --iterations 0"),
    "dm": ("DM", DM),
    "dm-0.02": ("DM, rate 0.02", f"{DM} --relative-lr 0.02"),
    "dm-0.05": ("DM, rate 0.05", f"{DM} --relative-lr 0.05"),
    "dm-0.8": ("DM, rate 0.8", f"{DM} --relative-lr 0.8"),
    "static-dynamic": ("static/dynamic", f"{STATIC_DYNAMIC} --static-lr 10 --dynamic-lr 1000"),
    "static-dynamic-memories-100": (
        "static/dynamic, memories at 100",
        f"{STATIC_DYNAMIC} --static-lr 10 --dynamic-lr 100",
    ),
    "static-dynamic-1000": ("static/dynamic, images at 1", f"{STATIC_DYNAMIC} --dynamic-lr 1000"),
    "static-dynamic-100": ("static/dynamic, images at 1, memories at 100", f"{STATIC_DYNAMIC} --dynamic-lr 100"),
    "static-dynamic-1e-4": ("static/dynamic, images at 1, memories at 0.0001 (published)", STATIC_DYNAMIC),
    "published": ("PRISM as published", PUBLISHED),
    "published-0.05": ("PRISM as published, rate 0.05", f"{PUBLISHED} --relative-lr 0.05"),
    "published-0.8": ("PRISM as published, rate 0.8", f"{PUBLISHED} --relative-lr 0.8"),
    "two": ("two key-frames", KEYFRAMES.format(1, 2)),
    "two-half": ("two of half size", KEYFRAMES.format(2, 2)),
    "two-quarter": ("**default**", DEFAULT),
    "cross-entropy": ("**default, cross-entropy**", f"{DEFAULT} --objective cross-entropy"),
    "cross-entropy-half": ("**recipe `cross-entropy`**", "condense --recipe small --recipe cross-entropy"),
    "cross-entropy-half-yuv420": (
        "**the same, coarse colour**",
        "condense --recipe small --recipe cross-entropy --storage yuv420",
    ),
    "cross-entropy-1": ("the same, weight 1", f"{DEFAULT} --objective 'cross-entropy(weight=1)'"),
    "cross-entropy-3": ("the same, weight 3", f"{DEFAULT} --objective 'cross-entropy(weight=3)'"),
    "eighth": ("an eighth of the size", KEYFRAMES.format(8, 2)),
    "eighth-cross-entropy": (
        "**an eighth of the size, cross-entropy**",
        f"{KEYFRAMES.format(8, 2)} --objective cross-entropy",
    ),
    "yuv420": ("**default, coarse colour**", f"{DEFAULT} --storage yuv420"),
    "default-0.05": ("default, rate 0.05", f"{DEFAULT} --relative-lr 0.05"),
    "default-0.8": ("default, rate 0.8", f"{DEFAULT} --relative-lr 0.8"),
    "default-200": ("default, 200 iterations", f"{DEFAULT} --iterations 200"),
    "default-400": ("default, 400 iterations", SHORT),
    "differences": ("default, differences, 400 iterations", f"{SHORT} --objective objectives:Differences"),
    "differences-800": ("default, differences", f"{DEFAULT} --objective objectives:Differences"),
    "characteristic": ("NCFM", f"{SHORT} --objective {NCFM}"),
    "characteristic-0.05": ("NCFM, rate 0.05", f"{SHORT} --objective {NCFM} --relative-lr 0.05"),
    "frequencies": ("two frequencies", f"{SHORT_SMALL} --method objectives:Frequencies"),
    "four": ("four key-frames", KEYFRAMES.format(1, 4)),
    "four-half": ("four of half size", KEYFRAMES.format(2, 4)),
    "quarter-three": ("three small key-frames", KEYFRAMES.format(4, 3)),
    "quarter-four": ("four small key-frames", KEYFRAMES.format(4, 4)),
    "quarter-budget": ("three on average, by need", f"{KEYFRAMES.format(4, 3)} --placement budget"),
    "quarter-noise": ("default from noise", f"{DEFAULT} --init noise"),
    "quarter-real": ("default from real clips", f"{DEFAULT} --init real"),
    "two-inserting": ("two, inserting by conflict", f"{KEYFRAMES.format(1, 2)} --insertion gradient"),
    "quarter-inserting": ("default, inserting by conflict", f"{DEFAULT} --insertion gradient"),
    "quarter-random": ("default, inserting at random", f"{DEFAULT} --insertion random"),
    "quarter-l2": ("default, inserting by distance", f"{DEFAULT} --insertion l2"),
    "small": ("every frame, as small", KEYFRAMES.format(4, 0)),
    "real-start": ("random clips, moved with cross-entropy", REAL_START),
    "herding-start-plain": (
        "herding, moved without cross-entropy",
        f"{HERDING_START} --objective distribution",
    ),
    "herding-start": ("**herding, moved**", HERDING_START),
    "packed-start": ("random clips, as small", f"{PACKED} --iterations 0"),
    "herding-small": ("herding, as small", f"{PACKED} --iterations 0 --init HERDING"),
    "random-four-half": ("random clips, sparse, evenly", f"{SPARSE} --placement even"),
    "herding-four-half": ("herding, sparse, evenly", f"{SPARSE} --init HERDING --placement even"),
    "herding-placed": ("herding, sparse, by error", f"{SPARSE} --init HERDING --placement error"),
    "herding-budget": ("**herding, recipe `sparse`**", f"{SPARSE} --init HERDING"),
    "budget-h264": ("herding, recipe `sparse`, in H.264", f"{SPARSE} --init HERDING --storage h264"),
    "three-half": (
        "herding, three evenly spread",
        f"{SPARSE} --init HERDING --initial-keyframes 3 --placement even",
    ),
    "three-placed": (
        "herding, three where interpolation errs least",
        f"{SPARSE} --init HERDING --initial-keyframes 3 --placement error",
    ),
    "three-budget": (
        "**herding, three on average, by need**",
        f"{SPARSE} --init HERDING --initial-keyframes 3",
    ),
    "packed": ("`packed`", PACKED),
    "packed-cross-entropy": ("**`packed` with cross-entropy**", f"{PACKED} --objective cross-entropy"),
    "all": ("all clips, 20 epochs", "20"),
    "all-60": ("all clips, 60 epochs", "60"),
}
"""Name of a row, and the command that makes its sets, in which HERDING is the set of that row; or the epochs for
which networks are trained on all clips."""
MODELS = {"": "ConvNet3D", "-cnn-gru": "CNN+GRU", "-cnn-lstm": "CNN+LSTM"}
"""Networks that score sets, by the ending of their folders of results."""
RATES = {
    "rates-signs": "signs, 125 and 375 epochs",
    "rates-lips": "spoken digits, 125, 375 and 1,000",
    "rates-ucf101-21": "ucf101-21, 125 and 375",
    "rates-signs-cnn-gru": "signs by CNN+GRU, 125 and 375",
    "rates-lips-cnn-gru": "digits by CNN+GRU, 125 and 375",
    "rates-signs-narrow": "signs, narrow",
    "rates-lips-narrow": "digits, narrow",
}
"""Folders of results on validation clips, and their headings in a table."""
SMALL_CLIPS = ("packed-start", "herding-small")
STORED_CLIPS = (*SMALL_CLIPS, "random-four-half", "herding-four-half", "herding-placed", "herding-budget")
"""Real clips that take fewer bytes than whole ones; several of each class stand in the tables by bytes alone."""
CORESETS = ("random", "herding", "k-center", *STORED_CLIPS)
MAIN = (
    *CORESETS,
    *("mean", "mean-small", "dm", "dm-0.05", "static-dynamic", "published"),
    *("two-quarter", "cross-entropy-half", "yuv420", "small"),
    *("real-start", "herding-start-plain", "herding-start", "packed", "packed-cross-entropy", "all", "all-60"),
)
BY_BYTES = (
    *("herding", *STORED_CLIPS, "two-quarter", "cross-entropy-half", "eighth", "eighth-cross-entropy"),
    *("herding-start", "packed", "packed-cross-entropy", "herding-h264", "budget-h264"),
)
"""Rows that are compared by their bytes, whatever their number of videos."""
ABLATIONS = [row for row in ROWS if row == "two-quarter" or row not in (*MAIN, *BY_BYTES)]
"""The default, and what differs from it."""
RIVALS = {"published": "PRISM as published", "dm": "DM", "static-dynamic": "static/dynamic"}
"""Rows of a main table over which the default's leads stand below it."""
BESIDE_DEFAULT = {
    "small": "every frame",
    "cross-entropy-half": "recipe `cross-entropy`",
    "yuv420": "coarse colour",
}
"""Rows of a main table whose leads over the default stand below it."""
