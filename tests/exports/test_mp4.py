"""Videos as mp4: colours are told, and nothing is lost with --lossless."""

import math
from fractions import Fraction

import av
import pytest
import torch
from settings import set_of

from prism.artifacts.encodings.sparse import UInt8
from prism.errors import ConfigError
from prism.exports.export import export
from prism.exports.videos import decoded
from prism.selection.select import select

COLOURS = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.5, 0.7]])


def test_other_decoders_show_the_same_colours(tmp_path):
    # A video of each colour, which changes from frame to frame.
    frames = COLOURS.view(-1, 1, 3, 1, 1) * torch.tensor([1, 0.8, 0.9, 0.7, 1]).view(1, -1, 1, 1, 1)
    condensed = set_of(frames.expand(-1, -1, -1, 32, 32), UInt8())
    made = export(condensed, tmp_path / "out")
    for video, path in enumerate(sorted(made.path.rglob("*.mp4"))):
        error = 255 * (decoded(path.read_bytes()) - condensed.render(torch.tensor([video]))[0]).mean(dim=(2, 3))
        # A decoder that took full range for limited range, or another matrix, would be 16 levels off.
        assert float(error.abs().max()) < 5
        with av.open(path) as container:
            told = container.streams.video[0].codec_context
            assert (told.color_range, told.colorspace, told.color_primaries, told.color_trc) == (2, 5, 1, 13)


def test_videos_are_encoded_to_the_same_bytes_again_and_higher_quality_takes_more_of_them(store, tmp_path):
    condensed = select(store)
    sizes = [export(condensed, tmp_path / str(quality), quality=quality).num_bytes for quality in (0, 65, 100)]
    assert sizes == sorted(set(sizes))
    export(condensed, tmp_path / "again", quality=65)
    for path in (tmp_path / "again").rglob("*.mp4"):
        assert path.read_bytes() == (tmp_path / "65" / path.relative_to(tmp_path / "again")).read_bytes()


def test_frames_a_second_change_when_frames_are_shown_and_nothing_of_what_they_show(store, tmp_path):
    condensed = select(store)
    assert len({export(condensed, tmp_path / f"{fps}", fps=fps).psnr for fps in (0.1, 8, 29.97, 50)}) == 1
    with av.open(next((tmp_path / "29.97").rglob("*.mp4"))) as container:
        stream = container.streams.video[0]
        assert (stream.average_rate, stream.frames) == (Fraction(2997, 100), condensed.num_frames)
        times = [float(frame.time) for frame in container.decode(video=0)]
    assert times == pytest.approx([frame / 29.97 for frame in range(condensed.num_frames)])


def test_without_loss_every_8_bit_pixel_is_kept_whatever_the_size(make_store, tmp_path):
    condensed = select(make_store(size=(19, 21)), vpc=2)
    assert export(condensed, tmp_path / "out", lossless=True).psnr == math.inf
    shown = [decoded(path.read_bytes()) for path in sorted((tmp_path / "out").rglob("*.mp4"))]
    assert torch.equal((255 * torch.stack(shown)).round(), (255 * condensed.render()).round())


def test_odd_sides_are_refused_with_what_to_do(make_store, tmp_path):
    condensed = select(make_store(size=(48, 31)))
    for to in ("videofolder", "webdataset"):
        with pytest.raises(ConfigError, match=r"even sides, not 48×31 pixels\. Choose --lossless or --to tensors"):
            export(condensed, tmp_path / "out", to=to)
    assert list(tmp_path.iterdir()) == []


def test_values_outside_the_range_of_pixels_are_clipped(tmp_path):
    frames = torch.linspace(-0.5, 1.5, 32).expand(2, 4, 3, 32, 32)
    condensed = set_of(frames)
    made = export(condensed, tmp_path / "out", lossless=True)
    lost = (frames - frames.clamp(0, 1)).square().mean()
    assert made.psnr == pytest.approx(-10 * math.log10(lost), abs=0.1)
    assert export(condensed, tmp_path / "tensors", to="tensors").psnr == math.inf
