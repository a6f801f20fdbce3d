"""The site that `make site` builds: complete, and viewed without a network."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser import LEAVE, in_a_browser, opened
from conftest import REPO
from frames import STATED, runs, seeds

from benchmark_dspdc import _MODULES

needs_sphinx = pytest.mark.skipif(
    not all(map(find_spec, ("sphinx", "myst_parser", "furo"))),
    reason='sphinx is not installed; run `pip install -e ".[site]"`',
)


def test_the_api_page_has_every_public_name():
    text = (REPO / "site" / "api.rst").read_text()
    assert set(re.findall(r"^\.\. auto\w+:: (\w+)", text, re.MULTILINE)) == set(_MODULES)


def test_the_navigation_has_every_page():
    text = (REPO / "site" / "conf.py").read_text()
    for file in (REPO / "docs").glob("*.md"):
        assert f'"docs/{file.stem}"' in text


def build(folder, archive):
    """The site of a copy of the repository, with a result file or without."""
    source, site = folder / "source", folder / "made"
    shutil.copytree(REPO, source, ignore=shutil.ignore_patterns(
        ".*", "outputs", "__cache__", "__pycache__", "*.egg-info", "*.parquet"))
    if archive:
        (source / "results").mkdir(exist_ok=True)
        frame = runs(*seeds(STATED, (0.1, 0.11)), *seeds("SPDC[m=1]", (0.2, 0.24)))
        frame.to_parquet(source / "results" / "one.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "site",
         "-d", folder / "doctrees", ".", site],
        cwd=source, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("site"), archive=True)


class Page(HTMLParser):
    """The ids of a page, where it links to, and what it loads."""

    def __init__(self, file):
        super().__init__()
        self.file, self.ids, self.links, self.loads = file, {""}, [], []
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id", ""))
        if tag == "a":
            self.links.append(found.get("href") or "")
        else:
            self.loads += [found[name] or "" for name in ("src", "href", "data") if name in found]


def pages(site):
    return {file: Page(file) for file in site.rglob("*.html")}


@needs_sphinx
@pytest.mark.nightly
def test_no_link_is_broken_and_nothing_is_loaded_from_a_host(site):
    found = pages(site)
    assert site / "index.html" in found and site / "report" / "report.html" in found
    for file, page in found.items():
        for address in page.loads:
            path = unquote(re.split("[?#]", address)[0])
            assert address.startswith(("data:", "#")) or (file.parent / path).exists(), (
                file, address)
        if file.name == "report.html" and file.parent.name != "site":
            # Its script makes what it links to.
            continue
        for address in page.links:
            if re.match(r"https?:|mailto:", address):
                continue
            path, _, anchor = unquote(address).partition("#")
            target = Path(os.path.normpath(file.parent / path)) if path else file
            assert target.exists(), (file, address)
            assert target not in found or anchor in found[target].ids, (file, address)


@needs_sphinx
@pytest.mark.nightly
def test_no_style_asks_a_host_and_no_file_tells_where_it_was_built(site):
    for file in site.rglob("*.*"):
        if file.suffix in (".css", ".html", ".js", ".json", ".svg", ".inv"):
            text = file.read_text("utf-8", "replace")
            assert not re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", text), file
            assert str(site.parent) not in text and str(REPO) not in text, file


@needs_sphinx
@pytest.mark.nightly
@pytest.mark.parametrize("archive", [True, False])
def test_the_report_is_linked_where_there_are_results_and_said_to_be_missing_else(
    site, archive, tmp_path
):
    made = site if archive else build(tmp_path, archive)
    assert (made / "report").exists() == archive
    links = Page(made / "site" / "report.html").links
    assert ("../report/report.html" in links) == archive
    assert ("has no report" in (made / "site" / "report.html").read_text()) != archive
    assert "site/report.html" in Page(made / "index.html").links


PROBE = LEAVE + """
async function walk(seen) {
  // The search takes its results one by one.
  for (let k = 0; k < 50; k++) await wait(20);
  seen.results = [...document.querySelectorAll("#search-results li a")].map(a => a.textContent);
  seen.broken = [...document.images].filter(i => !i.complete || !i.naturalWidth).length;
  seen.images = document.images.length;
  seen.styled = getComputedStyle(document.querySelector(".sidebar-sticky")).position;
}
"""


@needs_sphinx
@pytest.mark.nightly
@in_a_browser
@pytest.mark.parametrize(("page", "query"), [
    ("index.html", ""), ("docs/claims.html", ""), ("site/api.html", ""),
    ("search.html", "?q=certify"),
])
def test_pages_and_the_search_work_from_disk_without_a_network(site, tmp_path, page, query):
    copy = shutil.copytree(site, tmp_path / "copy") / page
    seen, _, requests = opened(copy.read_text("utf-8"), copy.parent, PROBE, query)
    assert requests == set()
    assert seen["styled"] == "sticky" and seen["broken"] == 0
    assert seen["images"] >= {"index.html": 1, "docs/claims.html": 4}.get(page, 0)
    if query:
        assert "benchmark_dspdc.certify" in seen["results"] and len(seen["results"]) > 3
    else:
        # A search from disk may not read pages, so it shows titles without their text.
        assert seen["faults"] == []
