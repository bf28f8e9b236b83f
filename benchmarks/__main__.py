"""All benchmarks, one after the other."""

from benchmarks import growth, ingest, overhead, peers, scale, utilisation
from benchmarks.measure import read_arguments, report

BENCHMARKS = {
    "peers": peers,
    "utilisation": utilisation,
    "overhead": overhead,
    "growth": growth,
    "ingest": ingest,
    "scale": scale,
}

if __name__ == "__main__":
    sizes, output = read_arguments("All benchmarks; --output is a folder.")
    for name, module in BENCHMARKS.items():
        report(name, sizes, module.measure(sizes), output / f"{name}.json" if output else None)
    if output:
        growth.draw(output / "growth.json", output / "growth.png")
