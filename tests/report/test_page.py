"""Tests of the report in a browser, at desktop and phone width."""

import json
import shutil
import threading
import urllib.request

import pytest

from personae.report import (
    LivePage,
    collect,
    make_server,
    watch,
    write_page,
    write_report,
)

CHARTS = (
    "lifelong",
    "training",
    "evaluation",
    "transfer",
    "steps",
    "coefficients",
    "similarity",
    "capacity",
    "reuse",
)


@pytest.fixture(scope="session")
def runs(lives, baselines, tmp_path_factory):
    """Return a directory with one run per method, as `personae compare` writes it."""
    root = tmp_path_factory.mktemp("report")
    for method, record in (lives | baselines).items():
        shutil.copytree(record.directory, root / method)
    return root


@pytest.fixture(scope="session")
def report(runs):
    return write_report(collect([runs]), runs)


@pytest.fixture(scope="module")
def browser():
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("the page tests need chromium and chromedriver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    yield driver
    driver.quit()


def open_page(browser, address, width=1280, charts=9):
    browser.get_log("browser")  # drops the messages of other pages
    # A headless window is never narrower than 500 pixels; an emulated phone is.
    screen = {"width": width, "height": 1000, "deviceScaleFactor": 1}
    phone = {"mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen | phone)
    browser.get(address)
    count = "return document.querySelectorAll('.chart .main-svg').length"
    wait_until(lambda: browser.execute_script(count) >= charts)


def wait_until(holds):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(None, 30).until(lambda _: holds())


def problems(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.mark.parametrize("width", [1280, 390])
def test_every_chart_is_drawn_without_an_error(browser, report, width):
    open_page(browser, report.as_uri(), width)
    for name in CHARTS:
        traces = browser.execute_script(f"return {name}.data.length")
        assert traces > 0, name
        box = browser.find_element("id", name).rect
        assert box["width"] > 0.8 * min(width, 1080) - 60, name
    assert problems(browser) == []
    assert browser.execute_script("return window.innerWidth") == width
    assert browser.execute_script("return document.body.scrollWidth") <= width


def test_the_page_loads_nothing_from_elsewhere(browser, report):
    open_page(browser, report.as_uri())
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [name for name in loaded if not name.startswith(("data:", "blob:"))] == []


def test_switching_tasks_changes_the_curves(browser, report):
    from selenium.webdriver.support.ui import Select

    open_page(browser, report.as_uri())
    script = "return JSON.stringify(training._fullData.map(t => Array.from(t.y)))"
    first = browser.execute_script(script)
    choice = Select(browser.find_element("id", "choose-training"))
    labels = [option.text for option in choice.options]
    assert labels == ["1 d1-0", "2 d1-1", "3 d2-00", "4 d2-11"]
    choice.select_by_visible_text("3 d2-00")
    wait_until(lambda: browser.execute_script(script) != first)
    assert problems(browser) == []


def test_hovering_names_the_method_and_the_value(browser, report):
    from selenium.webdriver.common.action_chains import ActionChains

    open_page(browser, report.as_uri())
    area = browser.find_element("css selector", "#lifelong .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", area)
    point = browser.execute_script(
        "const a = lifelong._fullLayout, t = lifelong._fullData.at(-1);"
        "const x = a.xaxis.l2p(t.x[4]), y = a.yaxis.l2p(t.y[4]);"
        "return [x - a._size.w / 2, y - a._size.h / 2]"
    )
    ActionChains(browser).move_to_element_with_offset(area, *map(int, point)).perform()
    text = "return document.querySelector('#lifelong .hoverlayer').textContent"
    wait_until(lambda: browser.execute_script(text))
    assert "ppo" in browser.execute_script(text)


def test_a_page_of_several_tables_shows_the_selected_one(browser, runs, tmp_path):
    from selenium.webdriver.support.ui import Select

    one, two = collect([runs / "mask-lc"]), collect([runs / "ppo"])
    path = write_page([one, two], tmp_path)
    open_page(browser, path.as_uri(), charts=7)
    titles = [title.text for title in browser.find_elements("tag name", "h1")]
    assert titles == ["tiny: mask-lc", ""]
    assert browser.find_elements("css selector", "#part1-lifelong .main-svg") == []
    Select(browser.find_element("id", "choose-report")).select_by_index(1)
    script = "return window['part1-reuse']._fullLayout?.width ?? 0"
    wait_until(lambda: browser.execute_script(script) > 800)
    titles = [title.text for title in browser.find_elements("tag name", "h1")]
    assert titles == ["", "tiny: ppo"]
    assert problems(browser) == []


def test_the_page_has_tables_and_provenance(browser, report):
    open_page(browser, report.as_uri())
    text = browser.find_element("tag name", "main").text
    for part in (
        "Total evaluation on test/Tiny-v3",
        "Forward transfer",
        "jax / python",
    ):
        assert part in text
    assert (
        "the paper has none for tiny"
        in browser.find_element("class name", "remarks").text
    )


def test_a_strangers_names_are_text_not_script(browser, runs, tmp_path):
    evil = "</script><script>window.owned = 1</script><img src=x onerror='owned = 1'>"
    shutil.copytree(runs / "mask-lc", tmp_path / "mask-lc")
    run = json.loads((tmp_path / "mask-lc" / "run.json").read_text())
    run["config"]["method"] = run["device"]["kind"] = evil
    (tmp_path / "mask-lc" / "run.json").write_text(json.dumps(run))
    path = write_report(collect([tmp_path]), tmp_path)
    browser.get(path.as_uri())
    wait_until(lambda: browser.execute_script("return lifelong.data?.length > 0"))
    assert browser.execute_script("return window.owned === undefined")
    assert browser.execute_script("return document.images.length") == 0
    assert evil in browser.find_element("tag name", "h1").text


def test_a_served_page_renews_itself(browser, runs, tmp_path):
    """The second half of the metrics is written while the page is open."""
    from selenium.webdriver.support.ui import Select

    shutil.copytree(runs / "mask-lc", tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[: len(lines) // 2]))
    live = LivePage([tmp_path / "run"])
    server, stop = make_server(live, 0), threading.Event()
    thread = threading.Thread(target=watch, args=(live, server, stop, 0.1))
    thread.start()
    try:
        browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
        points = "return window.lifelong?._fullData?.at(-1).x.length ?? 0"
        wait_until(lambda: browser.execute_script(points) > 0)
        first = browser.execute_script(points)
        assert "not whole" in browser.find_element("class name", "remarks").text
        choice = Select(browser.find_element("id", "choose-training"))
        choice.select_by_index(1)
        selected = choice.first_selected_option.text
        metrics.write_text("".join(lines))
        wait_until(lambda: browser.execute_script(points) > first)
        again = Select(browser.find_element("id", "choose-training"))
        assert again.first_selected_option.text == selected
    finally:
        stop.set()
        thread.join()


def test_a_served_page_accepts_named_differences(runs, tmp_path):
    for method in ("mask-ri", "mask-lc"):
        shutil.copytree(runs / method, tmp_path / method)
    run = json.loads((tmp_path / "mask-lc" / "run.json").read_text())
    run["config"]["curriculum"]["ppo"]["epochs"] = 7
    (tmp_path / "mask-lc" / "run.json").write_text(json.dumps(run))
    assert "cannot be compared" in LivePage([tmp_path]).html
    page = LivePage([tmp_path], despite=["ppo.epochs"]).html
    assert "ppo.epochs: 1 (mask-ri), 7 (mask-lc)" in page


def test_a_served_page_waits_for_the_first_evaluation(runs, tmp_path):
    shutil.copytree(runs / "mask-ri", tmp_path / "run")
    whole = (tmp_path / "run" / "metrics.jsonl").read_text()
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    live = LivePage([tmp_path / "run"])
    assert "has no evaluation yet" in live.html
    assert "there is no directory" in LivePage([tmp_path / "nowhere"]).html
    assert not live.refresh()
    (tmp_path / "run" / "metrics.jsonl").write_text(whole)
    assert live.refresh()
    assert "choose-training" in live.html
    server = make_server(live, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    with urllib.request.urlopen(f"{address}/version") as answer:
        assert answer.read().decode() == live.version
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/../run.json")
    server.shutdown()
    server.server_close()
