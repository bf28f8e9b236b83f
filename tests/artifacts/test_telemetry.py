"""Telemetry files: one JSON object a line, cut back to the last checkpoint."""

import pytest
from settings import load_telemetry

from prism.artifacts.telemetry import TelemetryWriter
from prism.errors import DivergedError


def write(path, iterations, keep_bytes=0) -> int:
    writer = TelemetryWriter(path, keep_bytes)
    for i in iterations:
        writer.write("step", iteration=i, loss=i / 3, note="ü")
    length = writer.sync()
    writer.close()
    return length


def test_what_was_written_after_the_checkpoint_is_cut_off(tmp_path):
    kept = write(tmp_path / "t", range(3))
    write(tmp_path / "t", range(3, 6), kept)
    assert write(tmp_path / "t", [], kept) == kept
    write(tmp_path / "t", range(3, 5), kept)
    records = [{"kind": "step", "iteration": i, "loss": i / 3, "note": "ü"} for i in range(6)]
    assert load_telemetry(tmp_path / "t") == {"step": records[:5]}
    # Keeping more than the file holds adds no zero bytes.
    write(tmp_path / "t", [5], keep_bytes=10_000)
    assert load_telemetry(tmp_path / "t") == {"step": records}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_named_when_its_record_is_written(tmp_path, value):
    writer = TelemetryWriter(tmp_path / "t")
    writer.write("step", iteration=4, loss=1.0)
    with pytest.raises(DivergedError, match=r"the step of iteration 5 is not finite: \{'energy': (nan|inf)\}"):
        writer.write("step", iteration=5, loss=1.0, energy=value)
    writer.close()
    assert [record["iteration"] for record in load_telemetry(tmp_path / "t")["step"]] == [4]
