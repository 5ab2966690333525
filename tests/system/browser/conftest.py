"""One Chromium for all tests of this folder, and the page in one file."""

import json
import pathlib
import subprocess

import pytest
from paths import ROOT
from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium"
# As root it has no sandbox. A name that is rebound to this computer stands for one of an attacker.
OPTIONS = ["--no-sandbox", "--host-resolver-rules=MAP rebound.test 127.0.0.1"]
PLACE = '<script type="application/json" id="saved"></script>'


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_file(tmp_path_factory):
    """page.html as the programs have it."""
    folder = tmp_path_factory.mktemp("page")
    subprocess.run([ROOT / "tools/lib/page/bundle", folder], check=True, timeout=60)
    return folder / "page.html"


class Opened:
    """A page in a browser, and what went wrong in it."""

    def __init__(self, context):
        self.page = context.new_page()
        self.page.set_default_timeout(60000)
        self.complaints, self.requests = [], []
        self.page.on("console", lambda said: self.complaints.append(said.text)
                     if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def foreign(self, own):
        return [url for url in self.requests if not url.startswith((own, "data:"))]

    def overflow(self):
        """How many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.fixture
def open_page(chromium):
    """open_page(url, size, theme, **of the context): the Opened page."""
    contexts = []

    def opened(url, size=(1440, 900), theme="light", **options):
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]},
                                       color_scheme=theme, **options)
        contexts.append(context)
        made = Opened(context)
        made.page.goto(url)
        return made

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def save(page_file, tmp_path):
    """save(view): the address of a file with the page and this view, as `lockstep ui --html` writes."""
    def saved(view):
        text = json.dumps(view).replace("<", "\\u003c")
        page = page_file.read_text()
        assert page.count(PLACE) == 1
        file = pathlib.Path(tmp_path) / f"saved-{len(list(tmp_path.iterdir()))}.html"
        file.write_text(page.replace(PLACE, PLACE.replace("></", f">{text}</")))
        return file.as_uri()

    return saved
