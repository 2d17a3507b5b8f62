"""The report of the micro run in headless Chromium: every figure and table is there, and the console stays clean.

Not among the default tests: it needs Debian's chromium and chromium-driver, which `make test-browser` installs.
"""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
FIGURES = yaml.safe_load((ROOT / "workflow/notebooks/inputs.yaml").read_text(encoding="utf-8"))
RESULTS = "results/micro"
# No sandbox, as it refuses root; no network, so that whatever the report would load from it is an error.
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1500,1100",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
VIEW = "app.setView({content: arguments[0], contentPath: results[arguments[1]].data_uri})"


@pytest.fixture(scope="module")
def browser():
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    absent = [name for name, path in programs.items() if path is None]
    if absent:
        pytest.fail(f"{' and '.join(absent)} missing: `make test-browser`, or apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=Service(programs["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def project(finished, tmp_path_factory):
    """The finished run with its report."""
    project = finished.copy(tmp_path_factory.mktemp("report") / "project")
    stylesheet = ["--report-stylesheet", "workflow/report/style.css"]
    project.snakemake("--report", f"{RESULTS}/report.html", *stylesheet)
    return project


@pytest.fixture
def report(browser, project):
    """The browser at the report's first page; afterwards the console holds no error."""
    browser.get((project.root / RESULTS / "report.html").as_uri())
    wait(browser, lambda it: it.find_elements(By.TAG_NAME, "nav"))
    yield browser
    assert errors(browser) == []


def errors(browser):
    """What the console has of errors since the last call; warnings are not."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def wait(browser, condition):
    """Until the page, which is drawn asynchronously, meets the condition."""
    WebDriverWait(browser, 60).until(condition)


def menu(browser):
    return browser.find_element(By.TAG_NAME, "nav").text


def expected(project):
    """Paths of what the report must hold."""
    figures = {f"figures/micro/{name}.{suffix}" for name in FIGURES for suffix in ("png", "pdf", "html")}
    tables = {str(path.relative_to(project.root)) for path in (project.root / RESULTS / "tables").glob("*.csv")}
    assert figures
    assert tables
    return figures | tables | {f"{RESULTS}/claims.json", f"{RESULTS}/manifest.json", "paper/micro/replication.pdf"}


def follow(browser, text):
    """Click the entry of the menu that has this text."""
    wait(browser, lambda it: text in menu(it).splitlines())
    links = [link for link in browser.find_elements(By.CSS_SELECTOR, "nav a") if link.text.strip() == text]
    assert len(links) == 1, f"{len(links)} entries {text!r} in the menu"
    browser.execute_script("arguments[0].click()", links[0])  # the menu may still be moving


def test_the_report_holds_all_figures_and_tables(report, project):
    assert set(report.execute_script("return Object.keys(results)")) == expected(project)


def test_each_is_reached_from_the_menu_and_has_a_caption(report):
    categories = report.execute_script("return categories")
    assert set(categories) == {"Claims", "Further figures", "Tables", "The paper"}
    for category, subcategories in categories.items():
        for subcategory, paths in subcategories.items():
            report.execute_script("app.setView({navbarMode: 'menu'})")
            follow(report, category)
            if len(subcategories) > 1:
                follow(report, subcategory)
            wait(report, lambda it, paths=paths: len(it.find_elements(By.CSS_SELECTOR, "nav tbody tr")) == len(paths))
            for path in paths:
                report.execute_script("app.showResultInfo(arguments[0])", path)
                wait(report, lambda it, path=path: path in menu(it) and "DESCRIPTION" in menu(it))
                assert "code version" in menu(report) or path.endswith("claims.json"), f"{path}: {menu(report)}"


def test_captions_have_the_numbers_of_the_results_and_no_markup_errors(report, project):
    captions = {path: result["caption"] for path, result in report.execute_script("return results").items()}
    assert not [path for path, caption in captions.items() if "system-message" in caption or "{{" in caption]
    content = json.loads((project.root / RESULTS / "claims.json").read_text(encoding="utf-8"))
    for claim in content["claims"]:
        caption = captions[f"figures/micro/{claim['figure']}.png"]
        assert f"Generalisation: <em>{claim['generalisation']['verdict']}</em>" in " ".join(caption.split())
        values = [row["value"] for test in claim["generalisation"]["tests"] for row in test["rows"]]
        for value in [value for value in values if value is not None and abs(value) < 1000][:1]:
            assert f"{value:.3g}" in caption, claim["id"]
    table = project.root / RESULTS / "tables/sink_geometry.md"
    for cell in table.read_text(encoding="utf-8").splitlines()[2].strip("| ").split(" | "):
        assert cell in captions[f"{RESULTS}/tables/sink_geometry.csv"]


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_shown_as_an_image_and_as_its_notebook(report, name):
    report.execute_script(VIEW, "img", f"figures/micro/{name}.png")
    wait(
        report,
        lambda it: it.execute_script(
            "return document.querySelector('img[src^=\"data:image/png\"]')?.naturalWidth > 300"
        ),
    )
    report.execute_script(VIEW, "html", f"figures/micro/{name}.html")
    wait(report, lambda it: it.find_elements(By.TAG_NAME, "iframe"))
    report.switch_to.frame(report.find_element(By.TAG_NAME, "iframe"))
    wait(report, lambda it: FIGURES[name]["title"] in it.find_element(By.TAG_NAME, "body").text)
    report.switch_to.default_content()


def test_the_first_page_has_the_verdicts_and_the_graph_of_rules(report, project):
    wait(report, lambda it: it.find_elements(By.CSS_SELECTOR, "#rulegraph canvas, #rulegraph svg"))
    text = report.find_element(By.TAG_NAME, "body").text
    for claim in json.loads((project.root / RESULTS / "claims.json").read_text(encoding="utf-8"))["claims"]:
        assert claim["id"] in text
        assert claim["statement"] in text
    rules = report.execute_script("return Object.keys(rules)")
    assert {"extract", "metrics", "taxonomy", "bounds", "tables", "figure", "claims", "manifest"} <= set(rules)


def test_run_times_of_every_rule_are_shown(report):
    follow(report, "Statistics")
    wait(report, lambda it: len(it.find_elements(By.CSS_SELECTOR, "canvas, svg.marks")) >= 2)
    runtimes = json.dumps(report.execute_script("return runtimes_spec"))
    for rule in ("extract", "tables", "figure"):
        assert f'"{rule}"' in runtimes


@pytest.mark.parametrize(
    "content", ["<script>missing()</script>", '<img src="https://example.org/missing.png">'], ids=["script", "network"]
)
def test_errors_of_a_page_are_seen(browser, tmp_path, content):
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><title>page</title>{content}")
    browser.get(page.as_uri())
    assert len(errors(browser)) == 1
