"""Telemetry files: one JSON object a line, cut back to the last checkpoint."""

import pytest
from settings import load_telemetry

from prism.artifacts.telemetry import TelemetryWriter
from prism.errors import DivergedError


def write(path, iterations, keep_bytes=0) -> int:
    writer = TelemetryWriter(path)
    writer.keep(keep_bytes)
    for i in iterations:
        writer.write("step", iteration=i, loss=i / 3)
    length = writer.sync()
    writer.close()
    return length


def test_records_come_back_in_order_and_by_kind(tmp_path):
    writer = TelemetryWriter(tmp_path / "t")
    writer.write("start", note="ü")
    writer.write("step", iteration=0, loss=1 / 3)
    writer.write("step", iteration=1, loss=0.5)
    writer.close()
    telemetry = load_telemetry(tmp_path / "t")
    assert {kind: len(records) for kind, records in telemetry.items()} == {"start": 1, "step": 2}
    assert telemetry["step"][0] == {"kind": "step", "iteration": 0, "loss": 1 / 3}
    assert telemetry["nothing"] == []


def test_what_was_written_after_the_checkpoint_is_cut_off(tmp_path):
    kept = write(tmp_path / "t", range(3))
    write(tmp_path / "t", range(3, 6), kept)
    assert write(tmp_path / "t", [], kept) == kept
    write(tmp_path / "t", range(3, 5), kept)
    assert [r["iteration"] for r in load_telemetry(tmp_path / "t")["step"]] == [0, 1, 2, 3, 4]
    # Keeping more than the file holds adds no zero bytes.
    write(tmp_path / "t", [5], keep_bytes=10_000)
    assert [r["iteration"] for r in load_telemetry(tmp_path / "t")["step"]] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_named_when_its_record_is_written(tmp_path, value):
    writer = TelemetryWriter(tmp_path / "t")
    writer.write("step", iteration=4, loss=1.0)
    with pytest.raises(DivergedError, match=r"the step of iteration 5 is not finite: \{'energy': (nan|inf)\}"):
        writer.write("step", iteration=5, loss=1.0, energy=value)
    writer.close()
    assert [record["iteration"] for record in load_telemetry(tmp_path / "t")["step"]] == [4]
