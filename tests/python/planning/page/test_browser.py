"""Pages of plans in a browser: nothing is wider than the screen, in light and in dark."""

import html
import json
import re
import struct
import subprocess
import zlib

import pytest
import torch
from torch.nn import functional as F

import smex
from support.browser import BROWSER

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is on the path")

LINK = smex.Level(1024, 1e-5, 1e9)
MACHINE = smex.Machine("test", {"float32": 1e10}, 1e10, 1e-6, 1e9, (LINK,))

MEASURE = """<script>
const clipped = [...document.querySelectorAll("h1, h2, h3, p, td, th, summary")].filter(
  (e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !e.closest(".scroll"));
const out = [...document.querySelectorAll("svg text")].filter((e) => {
  const own = e.getBoundingClientRect(), all = e.ownerSVGElement.getBoundingClientRect();
  return own.width > 0 && (own.left < all.left - 1 || own.right > all.right + 1
    || own.top < all.top - 1 || own.bottom > all.bottom + 1); });
const over = [];
for (const svg of document.querySelectorAll("svg")) {
  const boxes = [...svg.querySelectorAll("text")].map((e) => [e, e.getBoundingClientRect()]);
  boxes.forEach(([e, a], n) => boxes.slice(n + 1).forEach(([f, b]) => {
    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2)
      over.push(e.textContent + " | " + f.textContent); }));
}
const covered = [];
for (const svg of document.querySelectorAll("svg")) {
  const drawn = [...svg.querySelectorAll("path[fill]:not([fill=none])")];
  for (const e of svg.querySelectorAll("text")) {
    const a = e.getBoundingClientRect(), at = svg.createSVGPoint();
    const points = [0.05, 0.25, 0.5, 0.75, 0.95].map((f) => {
      at.x = a.left + f * a.width; at.y = (a.top + a.bottom) / 2; return at.matrixTransform(
        svg.getScreenCTM().inverse()); });
    if (a.width > 0 && drawn.some((p) => points.some((q) => p.isPointInFill(q))))
      covered.push(e.textContent); }
}
const small = [...document.querySelectorAll("svg text")].filter((e) => {
  const box = e.getBoundingClientRect(); return box.height > 0 && box.height < 9.5; });
document.body.dataset.found = JSON.stringify({
  broken: [...document.querySelectorAll(".unbroken")].filter(
    (e) => e.getBoundingClientRect().height > 25).map((e) => e.textContent),
  covered: covered, small: small.map((e) => e.textContent),
  wide: document.documentElement.scrollWidth - innerWidth, width: innerWidth,
  clipped: clipped.map((e) => e.textContent), out: out.map((e) => e.textContent), over: over,
  paper: getComputedStyle(document.querySelector(".smex-plan")).backgroundColor,
  ink: getComputedStyle(document.querySelector(".smex-plan")).color,
});
</script>"""


def browse(page, *options, dark=False):
    """What Chromium writes, with a page in a window of its own."""
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", scheme,
        "--timeout=20000", *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.decode()


def measured(page, width, dark=False, screenshot=None):
    """What is found of a page by a script in it; a picture of its window is written."""
    options = [f"--screenshot={screenshot}"] if screenshot else []
    text = browse(page, "--dump-dom", f"--window-size={width},900", *options, dark=dark)
    return json.loads(html.unescape(re.search(r'data-found="(.*?)"', text).group(1)))


def pixels(path):
    """Width, height, first pixel and how many different bytes a PNG without interlacing has."""
    data = path.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and kind in (2, 6)
    size, at, packed = 3 if kind == 2 else 4, 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    raw = zlib.decompress(packed)
    first = raw[1 : 1 + size]  # of the first row nothing is predicted at its first pixel
    return width, height, tuple(first[:3]), len(set(raw))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with torch.device("meta"):
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 3)
        x = torch.empty(8, 16, 64)
    graph = smex.capture_graph(model, (x, x), loss_fn=F.mse_loss)
    path = tmp_path_factory.mktemp("browser") / "plan.html"
    smex.search(graph, 4, replicate_bytes=0, machine=MACHINE).show(path)
    path.write_text(path.read_text().replace("</body>", f"{MEASURE}</body>"))
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [500, 1000, 1600])
def test_nothing_is_wider_than_the_screen_or_cut_off(page, tmp_path, width, dark):
    found = measured(page, width, dark, tmp_path / "page.png")
    assert found["width"] == width
    assert found["wide"] <= 0
    assert found["clipped"] == [] and found["out"] == [] and found["over"] == []
    assert found["covered"] == [] and found["small"] == []
    light = [sum(map(int, re.findall(r"\d+", found[key])[:3])) for key in ("paper", "ink")]
    assert (light[0] < 150 and light[1] > 450) if dark else (light[0] > 700 and light[1] < 150)
    *size, colour, drawn = pixels(tmp_path / "page.png")
    assert size == [width, 900] and colour == ((22, 24, 28) if dark else (255, 255, 255))
    assert drawn > 100  # or there is nothing on it


DRIVE = """<script>
const table = document.querySelector("table.sorted"), field = document.querySelector("input");
const column = (n) => [...table.rows].slice(1).filter((r) => !r.hidden)
  .map((r) => r.cells[n].textContent);
const heads = [...table.rows[0].cells].map((e) => e.textContent);
const share = heads.indexOf("share"), found = {heads};
table.rows[0].cells[share].click(); found.down = column(share);
table.rows[0].cells[share].click(); found.up = column(share);
table.rows[0].cells[0].click(); table.rows[0].cells[0].click(); found.names = column(0);
field.value = "mm backward"; field.oninput(); found.passes = column(heads.indexOf("pass"));
found.searched = column(0);
field.value = ""; field.oninput(); found.all = column(0).length;
const box = document.querySelector("svg rect"), title = box.querySelector("title").textContent;
box.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 20, clientY: 20}));
const tip = document.querySelector(".tip");
found.tip = [title, tip.textContent, tip.hidden];
const svg = document.querySelector(".zoom svg"), before = svg.getBoundingClientRect().width;
document.querySelector("button[aria-label='zoom in']").click();
found.zoom = svg.getBoundingClientRect().width / before;
document.querySelector("button[aria-label='all']").click();
found.back = svg.getBoundingClientRect().width / before;
found.nav = [...document.querySelectorAll("nav button")].map((e) => e.textContent);
document.querySelectorAll("nav button")[3].click();
found.scrolled = document.querySelectorAll("h2")[3].getBoundingClientRect().top;
const press = (key) => svg.parentNode.dispatchEvent(new KeyboardEvent("keydown", {key}));
press("+"); found.keys = [svg.getBoundingClientRect().width / before];
press("0"); found.keys.push(svg.getBoundingClientRect().width / before);
field.value = "mm"; field.oninput();
found.count = [document.querySelector("[aria-live]").textContent, column(0).length];
document.body.dataset.found = JSON.stringify(found);
</script>"""


def test_rows_are_searched_and_sorted_and_drawings_told_and_zoomed(page, tmp_path):
    driven = tmp_path / "driven.html"
    driven.write_text(page.read_text().replace(MEASURE, DRIVE))
    found = measured(driven, 1000)
    shares = [[float(cell.rstrip("%")) for cell in found[way]] for way in ("down", "up")]
    assert shares[0] == sorted(shares[0], reverse=True) and shares[1] == sorted(shares[1])
    assert shares[0][0] > shares[0][-1]
    assert found["names"] == sorted(found["names"]) and len(found["names"]) == found["all"]
    assert set(found["passes"]) == {"backward"} and 0 < len(found["passes"]) < found["all"]
    assert all("mm" in name for name in found["searched"])
    title, told, hidden = found["tip"]
    assert title == told and not hidden
    assert found["zoom"] > 1.9 and found["back"] == 1
    assert found["nav"][0] == "Timeline" and "Layers" in found["nav"]
    assert abs(found["scrolled"]) < 5
    assert found["keys"][0] > 1.9 and found["keys"][1] == 1
    assert found["count"][0] == f"{found['count'][1]} of {found['all']}"


@pytest.mark.parametrize("width", [500, 1600])
def test_two_plans_are_not_wider_than_the_screen(tmp_path, width):
    args = (torch.zeros(8, 16), torch.zeros(8, 16))
    graph = smex.capture_graph(torch.nn.Linear(16, 16), args, loss_fn=F.mse_loss)
    here = smex.search(graph, 2, replicate_bytes=0, machine=MACHINE)
    there = smex.search(graph, 2, planner="data_parallel", machine=MACHINE)
    path = here.compare(there).show(tmp_path / "both.html")
    path.write_text(path.read_text().replace("</body>", f"{MEASURE}</body>"))
    found = measured(path, width)
    assert found["wide"] <= 0 and found["clipped"] == [] and found["out"] == []
    assert found["covered"] == [] and found["small"] == [] and found["broken"] == []


def test_modules_of_many_layers_have_names(tmp_path):
    """More than two thousand ops: the band tells each layer, and nothing lies over the peak."""
    with torch.device("meta"):
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        x = torch.empty(8, 16, 64)
        graph = smex.capture_graph(torch.nn.TransformerEncoder(layer, 20), (x, x), F.mse_loss)
    assert len(graph.captured.ops) > 2000
    path = tmp_path / "many.html"
    smex.search(graph, 4, objective="time", machine=MACHINE).show(path)
    text = path.read_text()
    band = re.findall(r'<text x="[\d.]+" y="31.0" text-anchor="middle">([^<]*)<', text)
    assert {name.removeprefix("layers.") for name in band[:40]} >= {str(n) for n in range(20)}
    path.write_text(text.replace("</body>", f"{MEASURE}</body>"))
    found = measured(path, 1000)
    assert found["wide"] <= 0 and found["out"] == [] and found["covered"] == []


def test_what_is_too_wide_cut_off_or_overlaps_is_found(page, tmp_path):
    bad = (
        '<svg width="60" height="20"><text x="5" y="12">long words that end outside</text>'
        '<text x="8" y="13">others</text></svg><svg width="60" height="20" viewBox="0 0 120 40">'
        '<path d="M0 0H120V40H0Z" fill="red"/><text x="2" y="30">here</text></svg><p style="width:40px;overflow:hidden">'
        '<span style="white-space:nowrap">words that do not fit</span></p>'
        '<div style="width:30px"><b class="unbroken" style="white-space:normal">two lines</b></div>'
        '<h2 style="width:2000px">'
    )
    wide = tmp_path / "wide.html"
    wide.write_text(page.read_text().replace("<h2>", bad, 1))
    found = measured(wide, 500)
    assert found["wide"] > 0 and found["clipped"] == ["words that do not fit"]
    assert found["out"] == ["long words that end outside"]
    assert found["over"] == ["long words that end outside | others"]
    assert found["broken"] == ["two lines"]
    assert found["covered"] == ["here"] and found["small"] == ["here"]


@pytest.mark.parametrize("theme", ["false", "true"])
def test_the_theme_of_jupyter_goes_before_that_of_the_system(page, tmp_path, theme):
    inside = tmp_path / "inside.html"
    inside.write_text(page.read_text().replace("<body ", f'<body data-jp-theme-light="{theme}" '))
    paper = measured(inside, 1000, dark=theme == "true")["paper"]
    assert paper == ("rgb(255, 255, 255)" if theme == "true" else "rgb(22, 24, 28)")
