"""The page of `skout serve` in a real Chromium; where there is none these tests are skipped.

With the folder SKOUT_SCREENSHOTS they write the pictures of the documentation:
SKOUT_SCREENSHOTS=docs/images pytest tests/apps/cli/test_serve_page.py
"""

import base64
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("typer.testing")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from serving import COLUMNS, KINDS, as_csv, fit, fit_spectra, queries, running, served

from skout.apps.cli.fitting import fit_file
from skout.apps.cli.results import write_rows
from skout.apps.cli.serve.drawing import Picture
from skout.apps.cli.settings import merge

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("chromium and chromedriver are not installed", allow_module_level=True)

PHONE = 390
ROWS = [{name: row[name] for name in ("x1", "x2", "x3")} for row in queries()]


class Page:
    """A page in a browser."""

    def __init__(self, driver, downloads):
        self.driver, self.downloads = driver, downloads

    def open(self, ask, width=1100, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(f"http://127.0.0.1:{ask.port}/")
        self.wait(lambda: self.one("#go").is_enabled())

    def wait(self, condition):
        return WebDriverWait(self.driver, 60, poll_frequency=0.05).until(lambda _: condition())

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return [element.text for element in self.all(selector)]

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def status(self):
        return self.one("#status").text

    def go(self):
        """Press the button, and wait for what comes."""
        self.run("document.getElementById('results').replaceChildren()")
        self.one("#go").click()
        self.wait(lambda: self.one("#go").is_enabled() and self.status() != "Working …")

    def drop(self, selector, name, content):
        """Drop a file on an element."""
        script = """
            const [target, name, bytes] = arguments;
            const data = new DataTransfer();
            const content = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
            data.items.add(new File([content], name));
            for (const kind of ["dragover", "drop"]) {
              const options = { bubbles: true, cancelable: true, dataTransfer: data };
              target.dispatchEvent(new DragEvent(kind, options));
            }"""
        self.run("arguments[0].closest('details')?.setAttribute('open', '')", self.one(selector))
        self.run(script, self.one(selector), name, base64.b64encode(content).decode())

    def download(self):
        """Press the button for a CSV, and return it."""
        for old in self.downloads.glob("*"):
            old.unlink()
        self.one("#csv").click()
        path = self.downloads / "skout.csv"
        self.wait(lambda: path.exists() and path.stat().st_size > 0)
        return path.read_text(encoding="utf-8")

    def overflow(self):
        """Return how many pixels of the page lie beyond its right side."""
        return self.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def outside(self):
        """Return the elements that end beyond the right side."""
        return self.run("""
            const width = document.documentElement.clientWidth;
            return [...document.querySelectorAll("body *")]
              .filter((node) => node.getBoundingClientRect().right > width + 0.5)
              .filter((node) => !node.closest(".skip"))
              .map((node) => node.tagName + "." + node.className);""")

    def picture(self, name):
        """Write what is shown for the documentation, if a folder for it is given."""
        folder = os.environ.get("SKOUT_SCREENSHOTS")
        if folder:
            height = self.run("return document.documentElement.scrollHeight")
            width = self.run("return document.documentElement.clientWidth")
            clip = {"x": 0, "y": 0, "width": width, "height": min(height, 1400), "scale": 1}
            asked = {"format": "png", "clip": clip, "captureBeyondViewport": True}
            found = self.driver.execute_cdp_cmd("Page.captureScreenshot", asked)
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(found["data"]))

    def complaints(self):
        """Return what the browser wrote on its console: errors and breaches of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    downloads = tmp_path_factory.mktemp("downloads")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{word}")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    try:
        yield Page(driver, downloads)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


def fill(page, row):
    for j, value in enumerate(row.values()):
        page.one(f"#x{j}").clear()  # of its typical value
        page.one(f"#x{j}").send_keys(str(value))


SHOWN = {
    "label sets": "#results article:first-child > .chips, #results .candidates .chips",
    "rankings": "#results article > .order, #results .candidates .order",
    "strings": "#results article > code, #results .candidates code",
    "molecules": "#results img.molecule",
    "numbers": "#results .bar .signed .fill",
}


@pytest.mark.parametrize("kind", SHOWN)
def test_a_row_is_typed_and_its_answer_is_drawn(kind, page, folder):
    if kind == "molecules":
        pytest.importorskip("rdkit")
    with running(served(fit(kind, folder, f"{kind}.skout"))) as ask:
        _, predicted = ask.json("POST", "/api/predict", {"rows": ROWS[:1]})
        for width in (1100, PHONE):
            page.open(ask, width)
            fill(page, ROWS[0])
            page.go()
            assert page.status() == "1 row predicted."
            found = page.all(SHOWN[kind])
            assert len(found) >= 1
            assert all(one.is_displayed() for one in found)
            assert page.overflow() == 0
            assert page.outside() == []
        answer = predicted["rows"][0]
        first = page.one("#results article")
        if kind == "label sets":
            assert ";".join(page.texts("#results article > .chips li")) == answer["tags"]
        elif kind == "rankings":
            assert ">".join(page.texts("#results article > .order li")) == answer["order"]
        elif kind == "strings":
            assert page.one("#results article > code").text == answer["word"]
        elif kind == "molecules":
            assert page.run("return document.querySelector('img.molecule').naturalWidth") > 0
            assert page.one("img.molecule").get_attribute("alt") == f"Structure of {answer['mol']}"
        else:
            assert page.texts(".bar .name") == ["y", "z"]
            assert f"{answer['y']:.3g}" in first.text
        if kind != "numbers":
            _, ranked = ask.json("POST", "/api/rank", {"rows": ROWS[:1], "top": 10})
            candidates = ranked["rows"][0]["candidates"]
            assert len(page.all("#results .candidates > li")) == len(candidates)
            shown = page.texts("#results .candidates .bar .number")
            assert [float(text.replace("−", "-")) for text in shown] == pytest.approx(
                [one["score"] for one in candidates], rel=6e-3, abs=1e-12
            )
    assert page.complaints() == []


def test_a_table_is_dropped_and_the_csv_is_that_of_the_command_line(page, folder):
    with running(served(fit("label sets", folder, "dropped.skout"))) as ask:
        page.open(ask)
        page.drop("#table", "rows.csv", as_csv(ROWS).encode())
        page.wait(lambda: page.status() == "Read rows.csv.")
        page.go()
        assert page.status() == "3 rows predicted."
        assert len(page.all("#results article")) == 3
        _, _, expected = ask("POST", "/api/rank", {"rows": ROWS}, Accept="text/csv")
        assert page.download() == expected.decode()
        page.picture("serve-labels")
    assert page.complaints() == []


def test_mistakes_are_told(page, folder):
    with running(served(fit("label sets", folder, "mistakes.skout"))) as ask:
        page.open(ask)
        page.one("#x0").clear()
        page.go()  # without a number
        assert "column 'x1' has no value in row 1" in page.status()
        assert "bad" in page.one("#status").get_attribute("class")
        assert not page.one("#csv").is_displayed()
        fill(page, ROWS[0])
        page.go()
        assert page.status() == "1 row predicted."
    page.complaints()  # of the answer 422


def test_the_page_follows_a_new_model(page, tmp_path):
    path = fit("label sets", tmp_path)
    other = fit("rankings", tmp_path, "other.skout")
    with running(served(path), reload_seconds=0.01) as ask:
        page.open(ask)
        before = page.one("#model").text
        other.replace(path)
        page.wait(lambda: ask.json("GET", "/health")[1]["model"] != before)
        fill(page, ROWS[0])
        page.go()
        assert page.status() == "1 row predicted."
        assert len(page.texts("#results article > .order li")) == 3
        assert page.one("#model").text == ask.json("GET", "/health")[1]["model"]
    assert page.complaints() == []


def test_the_keyboard_is_enough(page, folder):
    with running(served(fit("rankings", folder, "keys.skout"))) as ask:
        page.open(ask)
        body = page.one("body")
        body.send_keys(Keys.TAB)  # the link to the results
        assert page.driver.switch_to.active_element.get_attribute("class") == "skip"
        for value in ROWS[0].values():
            page.driver.switch_to.active_element.send_keys(Keys.TAB)
            page.driver.switch_to.active_element.send_keys(str(value))
        page.driver.switch_to.active_element.send_keys(Keys.ENTER)
        page.wait(lambda: page.status() == "1 row predicted.")
        assert page.driver.switch_to.active_element.get_attribute("id") == "results"
        unnamed = page.run("""
            return [...document.querySelectorAll("input, textarea, button, select")]
              .filter((node) => !(node.labels?.length || node.textContent.trim()
                                  || node.getAttribute("aria-label")))
              .map((node) => node.outerHTML);""")
        assert unnamed == []
    assert page.complaints() == []


EVIL = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'


def test_names_of_a_model_are_text(page, tmp_path):
    """Columns and labels with scripts in them, and a long name without a space."""
    long = "W" * 300
    columns = {EVIL: COLUMNS["x1"], "b": COLUMNS["x2"]}
    columns["tags"] = [EVIL if x > 0 else long for x in COLUMNS["x1"]]
    write_rows([columns], str(tmp_path / "train.csv"), "csv")
    settings = {**KINDS["label sets"], "inputs": None, "separators": "|"}
    fit_file(tmp_path / "train.csv", merge(settings, None), tmp_path / "m.skout")
    with running(served(tmp_path / "m.skout")) as ask:
        page.open(ask, PHONE)
        assert EVIL in page.one("#fields").text
        fill(page, {"a": 0.5, "b": 0.1})
        page.go()
        assert EVIL in page.texts("#results .chips li")
        assert page.run(
            "return window.hurt === undefined && !document.querySelector('#results script')"
        )
        assert page.overflow() == 0
        assert page.outside() == []
        page.drop("#table", "rows.csv", (EVIL + "\n1\n").encode())
        page.wait(lambda: "Read" in page.status())
        page.go()
        assert "window.hurt" in page.status()  # in the message, as text
        assert page.run("return window.hurt === undefined")
    page.complaints()


def test_images_are_drawn_and_predicted(page, tmp_path):
    """A model from images to images: what is drawn is sent, and what is predicted is shown."""
    n, pixels = 40, 64
    columns = {f"p{j}": [(i * j) % 7 / 6 for i in range(n)] for j in range(pixels)}
    columns |= {f"q{j}": columns[f"p{j}"] for j in range(pixels)}
    write_rows([columns], str(tmp_path / "train.csv"), "csv")
    fit_file(
        tmp_path / "train.csv",
        merge({"target": "q*", "inputs": "p*", "alpha": 1e-3}, None),
        tmp_path / "m.skout",
    )
    square = Picture(8, 8)
    with running(served(tmp_path / "m.skout", input_image=square, output_image=square)) as ask:
        page.open(ask, PHONE)
        page.run("""
            const canvas = document.getElementById("canvas");
            const box = canvas.getBoundingClientRect();
            for (let k = 1; k < 9; k++) {
              canvas.dispatchEvent(new PointerEvent("pointermove", { buttons: 1, bubbles: true,
                clientX: box.left + (box.width * k) / 10, clientY: box.top + box.height / 2 }));
            }""")
        page.go()
        assert page.status() == "1 row predicted."
        lit = """
            const data = arguments[0].getContext("2d").getImageData(0, 0, 8, 8).data;
            return [...data].filter((x, i) => i % 4 == 0);"""
        sent = page.run(lit, page.one("#canvas"))
        assert sum(value == 255 for value in sent) >= 6
        row = {f"p{j}": value / 255 for j, value in enumerate(sent)}
        _, found = ask.json("POST", "/api/predict", {"rows": [row]})
        shown = page.run(lit, page.one("#results canvas"))
        expected = [255 * found["rows"][0][f"q{j}"] for j in range(pixels)]
        assert shown == pytest.approx([min(255, max(0, x)) for x in expected], abs=1.01)
        assert page.overflow() == 0
        page.drop("#canvas", "no.png", b"no image")
        page.wait(lambda: "no image that the browser can read" in page.status())
    page.complaints()


@pytest.fixture(scope="module")
def spectra(tmp_path_factory):
    """A server of a model of spectra, and a file of these."""
    pytest.importorskip("rdkit")
    model, pool, asked = fit_spectra(tmp_path_factory.mktemp("spectra"))
    with running(served(model, pool)) as ask:
        yield ask, asked


@pytest.mark.parametrize("width", [1100, PHONE])
def test_a_spectrum_is_dropped_and_named(width, page, spectra):
    ask, asked = spectra
    body = {"spectra": asked, "top": 10}
    _, answer = ask.json("POST", "/api/identify", {**body, "explain": 3})
    page.open(ask, width)
    page.drop("#spectra", "unknown.mgf", asked.encode())
    page.wait(lambda: page.status() == "Read unknown.mgf.")
    page.go()
    assert page.status() == "3 spectra searched."
    cards = page.all("#results article")
    assert len(cards) == 3
    for card, found in zip(cards, answer["spectra"], strict=True):
        assert card.find_element(By.TAG_NAME, "h2").text == found["query"]
        hits = card.find_elements(By.CSS_SELECTOR, ".candidates > li")
        assert len(hits) == len(found["hits"])
        for shown, hit in zip(hits, found["hits"], strict=True):
            image = shown.find_element(By.CSS_SELECTOR, "img.molecule")
            assert image.get_attribute("alt") == f"Structure of {hit['smiles']}"
            assert page.run("return arguments[0].complete && arguments[0].naturalWidth", image)
            marked = shown.find_elements(By.CSS_SELECTOR, ".badge")
            assert [one.text for one in marked] == ["in the 90 % set"] * hit["in_set"]
            assert ("in-set" in shown.get_attribute("class")) == hit["in_set"]
            assert hit["name"] in shown.text
    assert page.overflow() == 0
    assert page.outside() == []
    page.picture(f"serve-spectra-{width}")
    _, _, expected = ask("POST", "/api/identify", body, Accept="text/csv")
    assert page.download() == expected.decode()
    assert page.complaints() == []


@pytest.mark.parametrize("width", [1280, PHONE])
def test_many_spectra_have_an_overview_and_are_folded_up(width, page, spectra):
    ask, asked = spectra
    text = asked + asked  # six spectra
    _, answer = ask.json("POST", "/api/identify", {"spectra": text, "top": 10})
    page.open(ask, width)
    page.drop("#spectra", "unknown.mgf", text.encode())
    page.wait(lambda: page.status() == "Read unknown.mgf.")
    page.go()
    assert page.status() == "6 spectra searched."
    sure = [found["hits"][0]["confidence"] for found in answer["spectra"]]
    order = sorted(range(6), key=lambda i: -sure[i])
    links = page.all("#results .overview a")
    assert [link.text for link in links] == [answer["spectra"][i]["query"] for i in order]
    assert page.all("#results details[open]") == []
    assert page.all("svg.peaks") == []
    page.run("arguments[0].click()", links[0])
    page.wait(lambda: len(page.all("svg.peaks")) == 1)  # drawn on demand
    assert len(page.all(f"#spectrum-{order[0]} details[open]")) == 1
    assert page.overflow() == 0
    assert page.outside() == []
    page.picture(f"serve-overview-{width}")
    assert page.complaints() == []


def test_peaks_are_explained_by_each_candidate(page, spectra):
    ask, asked = spectra
    one = asked.split("END IONS")[0] + "END IONS\n"
    _, answer = ask.json("POST", "/api/identify", {"spectra": one, "explain": 3})
    page.open(ask)
    page.one("#spectra").send_keys(one)
    page.go()
    explanations = answer["spectra"][0]["explanations"]
    buttons = page.all("#results .candidates button")
    assert len(buttons) == len(explanations) == min(3, len(answer["spectra"][0]["hits"]))
    for button, found in zip(buttons, explanations, strict=True):
        button.send_keys(Keys.ENTER)
        assert button.get_attribute("aria-pressed") == "true"
        explained = sum(bool(peak["formula"]) for peak in found["peaks"])
        assert len(page.all("svg.peaks line.explained")) == 2 * explained  # and mirrored
        assert len(page.all("svg.peaks line.other")) == len(found["peaks"]) - explained
        said = f"{len(found['peaks'])} peaks, {100 * found['share']:.0f} % of the intensity"
        assert page.one("svg.peaks").get_attribute("aria-label").startswith(said)
    assert len(page.all('#results button[aria-pressed="true"]')) == 1
    assert page.complaints() == []


def test_names_of_spectra_are_text(page, spectra):
    ask, _ = spectra
    page.open(ask, PHONE)
    text = f"BEGIN IONS\nTITLE={EVIL}{'W' * 200}\nPEPMASS=195.08\n50 1\nEND IONS\n"
    page.drop("#spectra", "evil.mgf", text.encode())
    page.wait(lambda: page.status() == "Read evil.mgf.")
    page.go()
    assert EVIL in page.one("#results h2").text
    assert "adduct" in page.one("#results article").text  # the note: it is not known
    assert page.run("return window.hurt === undefined")
    assert page.overflow() == 0
    assert page.outside() == []
    assert page.complaints() == []


def test_a_text_is_typed(page, folder):
    pytest.importorskip("rdkit")
    with running(served(fit("molecules of a text", folder, "text.skout"))) as ask:
        page.open(ask)
        page.one("#text").send_keys("banana")
        page.go()
        assert page.status() == "1 row predicted."
        assert page.all("img.molecule")
    assert page.complaints() == []


def test_the_page_says_when_there_is_no_server(page, folder):
    with running(served(fit("label sets", folder, "gone.skout"))) as ask:
        page.open(ask)
    fill(page, ROWS[0])
    page.go()
    assert "bad" in page.one("#status").get_attribute("class")
    assert page.one("#go").is_enabled()
    page.complaints()
