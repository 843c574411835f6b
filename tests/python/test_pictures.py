"""What README.md says and shows is what the tables say."""

import html
import pathlib
import re
import subprocess

import pictures
import pytest

from support.browser import BROWSER

ROOT = pathlib.Path(pictures.ROOT)


@pytest.fixture(scope="module")
def ratios():
    return pictures.ratios()


def test_the_picture_has_the_numbers_of_the_tables(ratios):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", (ROOT / "docs/pictures/speed.svg").read_text())
    drawn = sorted(html.unescape(text) for text in texts if " × " in text)
    assert drawn == sorted(pictures.words(system, ratio) for (_, system), ratio in ratios.items())


@pytest.mark.parametrize(
    ("sentence", "measured", "systems"),
    [
        ("GPT over 1 Gbit/s: FSDP2 takes {} times as long, DDP {}", "GPT, 4 layers of 1024",
         ("FSDP2", "DDP")),
        ("GAT epochs take DGL {} times as long", "GAT, 8 heads", ("DGL",)),
        ("PyG takes {} times as long", "GAT, 8 heads", ("PyG",)),
    ],
)  # fmt: skip
def test_the_readme_has_them_too(ratios, sentence, measured, systems):
    told = sentence.format(*(f"{ratios[measured, system]:.1f}" for system in systems))
    assert told in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("text", "section", "row"),
    [
        ("of 10,074 calls 9,953 are divided correctly, by DTensor 8,209",
         "What can be divided, beside DTensor", "| calls divided correctly | 9953 | 8209 | 10074 |"),
        ("495 wrong rules", "What can be divided, beside DTensor", "| wrong rules | | 495 |"),
        ("5.9 times the memory", "GNN training",
         "| train_gat, 8 heads, F = 64 | power-law-1e6 | 199 | 218 | 1.09 | adj_t 1187, "
         "edge_index 1169 | 5.86 |"),
    ],
)  # fmt: skip
def test_other_numbers_of_the_readme(text, section, row):
    tables = (ROOT / "benchmarks/README.md").read_text()
    assert row in tables.partition(f"## {section}")[2].partition("\n## ")[0]
    assert text in (ROOT / "README.md").read_text()


def test_a_row_that_is_gone_is_an_error():
    bar = pictures.Bar("DGL", "GNN training", "| train_none |", 4)
    with pytest.raises(SystemExit, match="'GNN training' has no row '| train_none |'"):
        bar.ratio("\n## GNN training\n| train_gcn | 1 |\n")


# ---- on light and on dark pages ----

BARS = ["speed", *(f"chart_{chart.name}" for chart in pictures.CHARTS)]


@pytest.mark.parametrize("name", [*BARS, "plan"])
def test_pictures_are_light_or_dark_and_can_be_read_at_500_pixels(name):
    svg = (ROOT / f"docs/pictures/{name}.svg").read_text()
    assert "prefers-color-scheme:dark" in svg and "fill:var(--paper)" in svg
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg).group(1))
    letter = float(re.search(r"text{font:([\d.]+)px", svg).group(1))
    assert letter * min(1, 500 / width) >= 8


@pytest.mark.parametrize("draw", [pictures.speed, pictures.charts, pictures.plan])
def test_pictures_are_those_that_the_command_draws(draw, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    draw()
    drawn = sorted(tmp_path.iterdir())
    assert drawn
    for path in drawn:
        assert path.read_text() == (ROOT / "docs/pictures" / path.name).read_text(), path.name


PAGE = """<!DOCTYPE html><style>{}</style><body data-theme="{}">
<div class="cell_output"><img></div><script>const image = document.querySelector("img");
const style = getComputedStyle(image);
document.body.append("found " + style.colorScheme + ", " + style.filter);</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is on the path")
@pytest.mark.parametrize("prefers", ["light", "dark"])
@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_pictures_follow_the_theme_of_the_documentation(theme, prefers, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(PAGE.format((ROOT / "docs/static/site.css").read_text(), theme))
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
        f"--blink-settings=preferredColorScheme={int(prefers == 'light')}", page.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.decode()
    shown = prefers if theme == "auto" else theme
    inverted = "invert(0.92) hue-rotate(180deg)" if shown == "dark" else "none"
    assert f"found {shown}, {inverted}" in dom


# ---- charts of docs/benchmarks.md ----


@pytest.mark.parametrize("chart", pictures.CHARTS, ids=lambda chart: chart.name)
def test_charts_have_the_numbers_of_the_tables(chart):
    rows = chart.rows((ROOT / "benchmarks/README.md").read_text())
    svg = (ROOT / f"docs/pictures/chart_{chart.name}.svg").read_text()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    drawn = sorted(html.unescape(text) for text in texts if "  " in text)
    assert drawn == sorted(
        pictures.bar_words(*bar) for bars in rows.values() for bar in bars.items()
    )
    assert all("SMEX" in bars and len(bars) > 1 for bars in rows.values())


@pytest.mark.parametrize("chart", pictures.CHARTS, ids=lambda chart: chart.name)
def test_each_chart_stands_beside_its_command(chart):
    page = (ROOT / "docs/benchmarks.md").read_text()
    beside = page.partition(f"(pictures/chart_{chart.name}.svg)")[0].rpartition("\n## ")[2]
    assert f"`{chart.command}`" in beside
    tables = (ROOT / "benchmarks/README.md").read_text()
    section = tables.partition(f"\n## {chart.section}\n")[2].partition("\n## ")[0]
    assert f"`{chart.command}" in section


def test_numbers_of_cells():
    cells = ["dgl: 1.5e+03 [1.45e+03, 2.57e+03]", "0.44 s [0.38, 0.80]", "pyg adj_t: 177"]
    assert [pictures._number(cell) for cell in cells] == [1500, 0.44, 177]


def test_a_table_that_is_gone_is_an_error():
    chart = pictures.CHARTS[0]
    with pytest.raises(SystemExit, match="'Processes' has no table"):
        chart.rows("\n## Processes\n| other |\n")
    with pytest.raises(SystemExit, match="is empty"):
        chart.rows(f"\n## Processes\n{chart.header} FSDP2 |\n|---|---|\n")
