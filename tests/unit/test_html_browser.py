"""The page in a browser: it asks for nothing, is as wide as the window, and changes with the reader's colour scheme."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from foretrain.cli.main import main

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((path for path in map(shutil.which, NAMES) if path), None)
NARROW = 390

pytestmark = [pytest.mark.extra, pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")]

PROBE = """<!DOCTYPE html><meta charset="utf-8"><title>probe</title>
<iframe id="page" src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>
<p id="answer"></p>
<script>
document.getElementById("page").addEventListener("load", () => {{
  const inner = document.getElementById("page").contentDocument, root = inner.documentElement;
  document.getElementById("answer").textContent =
    "width " + root.scrollWidth + " bars " + inner.querySelectorAll("svg.bar").length +
    " ground " + getComputedStyle(inner.body).backgroundColor +
    " fill " + getComputedStyle(inner.querySelector("rect.c1")).fill;
}});
</script>
"""


class Recorder(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and remembers what was asked for."""

    asked: list[str] = []  # noqa: RUF012

    def log_request(self, code: object = "-", size: object = "-") -> None:
        self.asked.append(self.path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    assert main(["simulate", "llama-3.1-405b", "--on", "dgx-h100", "--chips", "16384", "--html", str(folder / "page.html")]) == 0
    (folder / "probe.html").write_text(PROBE.format(width=NARROW), encoding="utf-8")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Recorder, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def browse(address: str, profile: Path, *flags: str) -> str:
    """The document at ``address`` after it was shown, as the browser has it."""
    assert BROWSER
    always = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=5000"]
    done = subprocess.run([BROWSER, *always, *flags, "--dump-dom", address], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_asks_for_nothing(served: str, tmp_path: Path) -> None:
    Recorder.asked.clear()
    assert "Llama 3.1 405B" in browse(f"{served}/page.html", tmp_path)
    assert Recorder.asked == ["/page.html"]


@pytest.mark.parametrize(("scheme", "ground"), [("1", "rgb(255, 255, 255)"), ("0", "rgb(20, 23, 26)")])
def test_fits_a_telephone_in_light_and_dark(served: str, tmp_path: Path, scheme: str, ground: str) -> None:
    shown = browse(f"{served}/probe.html", tmp_path, f"--blink-settings=preferredColorScheme={scheme}")
    found = re.search(r"width (\d+) bars (\d+) ground (rgb\([\d, ]+\)) fill (rgb\([\d, ]+\))", shown)
    assert found, shown[-500:]
    assert int(found[1]) <= NARROW
    assert int(found[2]) > 10
    assert found[3] == ground
    assert found[4] not in {"rgb(0, 0, 0)", ground}
