"""Does `skout identify` work where only the wheel is installed? `make test-ready` runs this.

In a folder and a cache of its own, without a network: carbamazepine is among the first
candidates of its spectrum. The first call builds the default pool, the second finds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import skout

# Carbamazepine: peaks as many instruments have them.
SPECTRUM = """BEGIN IONS
TITLE=from a river
PEPMASS=237.1022
ADDUCT=[M+H]+
165.0699 3
179.0730 8
192.0808 25
193.0886 10
194.0964 100
220.0757 5
237.1022 12
END IONS
"""
# No address can be reached by way of this proxy.
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


def main() -> None:
    if not Path(skout.__file__).is_relative_to(sys.prefix):
        raise SystemExit(f"skout is not that of the wheel: {skout.__file__}")
    program = Path(sys.executable).with_name("skout")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "unknown.mgf").write_text(SPECTRUM * 100, encoding="utf-8")
        environment = {**os.environ, **NO_NETWORK, "SKOUT_CACHE": str(folder / "cache")}
        environment.pop("SKOUT_DATA", None)
        for what in ("first", "second"):
            start = time.perf_counter()
            words = [program, "identify", "unknown.mgf", "-o", "hits.json"]
            run = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if run.returncode:
                raise SystemExit(f"skout identify:\n{run.stderr}")
            seconds = time.perf_counter() - start
            sys.stdout.write(f"{what} time, 100 spectra: {seconds:.0f} s\n")
        sys.stdout.write(run.stderr)
        results = json.loads((folder / "hits.json").read_text(encoding="utf-8"))["results"]
        assert len(results) == 100
        names = [hit["name"] for hit in results[0]["hits"][:3]]
        assert "Carbamazepine" in names, names
        sys.stdout.write(f"{', '.join(names)}: skout {skout.__version__} in {sys.prefix}\n")


if __name__ == "__main__":
    main()
