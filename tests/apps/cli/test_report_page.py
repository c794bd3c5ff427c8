"""The page of `skout report` in a real Chromium; where there is none these tests are skipped.

With the folder SKOUT_SCREENSHOTS they write the pictures of the documentation:
SKOUT_SCREENSHOTS=docs/images pytest tests/apps/cli/test_report_page.py
"""

import base64
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer.testing")
pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import skout
from skout.apps.cli.report import model_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("chromium and chromedriver are not installed", allow_module_level=True)

WIDTHS = (1280, 390)
OUTSIDE = """
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("pre") && node.getClientRects().length)
  .filter((node) => node.getBoundingClientRect().right > width + 0.5)
  .map((node) => node.tagName + "." + node.className);"""


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def tours(n=260):
    """Return tours and their tags, as in the page of the command line."""
    rng = np.random.default_rng(0)
    speed = {"run": 10, "ride": 22, "walk": 4}
    X, tags, sports = [], [], []
    for sport, trail in zip(rng.choice(list(speed), n), rng.random(n) < 0.5, strict=True):
        minutes = rng.uniform(20, 120)
        distance = speed[sport] * minutes / 60 * rng.normal(1.0, 0.15)
        climb = distance * (rng.uniform(25, 45) if trail else rng.uniform(1, 20))
        X.append([minutes, distance, climb])
        tags.append([sport == one for one in speed] + [trail, not trail, minutes > 90])
        sports.append(str(sport))
    X = np.array(X)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.array(tags, dtype=float), sports


def label_sets():
    X, Y, sports = tours()
    model = skout.iokr("gaussian", "f1", alpha=1e-3, random_state=0).fit(X[:200], Y[:200])
    labels = ["run", "ride", "walk", "trail", "road", "long"]
    given = {"by": {"sport": sports[200:]}, "train": (X[:200], Y[:200]), "labels": labels}
    return model_report(model, X[200:], Y[200:], title="Tags of tours", **given)


def numbers():
    X, Y, sports = tours()
    model = skout.KernelRidge("gaussian", alpha=1e-3).fit(X[:150], X[:150, :2] + Y[:150, :2])
    model.calibrate(X[150:200], X[150:200, :2] + Y[150:200, :2])
    long = "a very long name of a column without any space " * 3 + "x" * 80
    given = {"by": {long: sports[200:]}, "labels": [long, "b"]}
    return model_report(model, X[200:], X[200:, :2] + Y[200:, :2], **given)


def molecules():
    pytest.importorskip("rdkit")
    smiles = ["CCO", "c1ccccc1", "CC(=O)Nc1ccc(O)cc1", "C" * 120]
    X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    Y = [smiles[j] for j in np.digitize(X[:, 0], [-0.5, 0, 0.5])]
    kernel = skout.kernels.Mapped(skout.molecules.fingerprints, "tanimoto")
    model = skout.iokr("gaussian", kernel, alpha=1e-2).fit(X[:50], Y[:50])
    return model_report(model, X[50:], Y[50:], kind="smiles")


@pytest.mark.parametrize("made", [label_sets, numbers, molecules], ids=lambda one: one.__name__)
def test_a_page_fits_its_window(made, driver, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(made(), encoding="utf-8")
    for width in WIDTHS:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(path.as_uri())
        root = "document.documentElement"
        assert driver.execute_script("return window.innerWidth") == width
        over = driver.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        assert over == 0
        assert driver.execute_script(OUTSIDE) == []
        small = "return [...document.querySelectorAll('body *')].map((n) => getComputedStyle(n))"
        least = driver.execute_script(f"{small}.map((s) => parseFloat(s.fontSize))")
        assert min(least) >= 11
        picture(driver, f"report-{made.__name__}-{width}")
    assert driver.get_log("browser") == []


def picture(driver, name):
    """Write what is shown for the documentation, if a folder for it is given."""
    folder = os.environ.get("SKOUT_SCREENSHOTS")
    if folder:
        height = driver.execute_script("return document.documentElement.scrollHeight")
        width = driver.execute_script("return document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 2800), "scale": 1}
        asked = {"format": "png", "clip": clip, "captureBeyondViewport": True}
        found = driver.execute_cdp_cmd("Page.captureScreenshot", asked)
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(found["data"]))
