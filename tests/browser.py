"""Pages opened in a browser without a network, and what a script in them has seen."""

import html
import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def opened(text, folder, probe="", query=""):
    """Open a page with a script of one's own in its head, and a query in its address.

    Returns
    -------
    seen : object or None
        What the script has left as JSON in an element with the id "seen".
    console : list of str
    requests : set of str
        Addresses of hosts that the page asked for.
    """
    page, log = folder / "opened.html", folder / "net.json"
    page.write_text(text.replace("<head>", f"<head><script>{probe}</script>", 1), "utf-8")
    done = subprocess.run([
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        # Little that the browser asks for by itself; what is left of that has no origin.
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--no-first-run", "--disable-quic", "--disable-extensions", "--window-size=1600,1000",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--log-net-log={log}",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=600000", "--dump-dom",
        page.as_uri() + query,
    ], capture_output=True, text=True, timeout=240, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    asked = re.findall(r'"initiator":"([^"]*)".*"url":"(https?://[^"]*)"', log.read_text())
    return (
        found and json.loads(html.unescape(found[1])), re.findall(r".*CONSOLE.*", done.stderr),
        {url for origin, url in asked if origin != "not an origin"},
    )


#: Leaves what `walk(seen)` has noted in the page, and what failed meanwhile.
LEAVE = """
const faults = [], wait = time => new Promise(done => setTimeout(done, time));
window.addEventListener("error", event => faults.push(event.message));
window.addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
document.addEventListener("securitypolicyviolation", event => faults.push(
  event.violatedDirective + " " + event.blockedURI));
window.addEventListener("load", async () => {
  const seen = {};
  try { await walk(seen); } catch (error) { faults.push(error.stack); }
  const box = document.createElement("pre");
  box.id = "seen";
  box.textContent = JSON.stringify({...seen, faults});
  document.body.append(box);
});
"""
