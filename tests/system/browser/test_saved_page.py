"""The page that carries its view in its own file: opened from disk, with no server."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from made_up import HOSTILE, SVG, failed, generation, huge, listed, view

AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
TABS = ["Log", "Stacks", "Ledger", "Bindings", "Events"]
# Milliseconds for a full draw of 32,768 cells: a tenth of a second in software, on an idle core.
DRAW = 2000


def text_of(page, selector):
    return page.locator(selector).inner_text()


def test_saved_page_opens_from_disk_says_so_and_asks_nobody(open_page, save):
    address = save(view())
    opened = open_page(address)
    opened.page.wait_for_selector("h1")
    assert text_of(opened.page, "[role=status]") == "recorded, not live"
    assert opened.complaints == []
    assert opened.foreign(address) == []


def test_every_view_shows_the_values_of_the_saved_run(open_page, save):
    page = open_page(save(view())).page
    assert text_of(page, "h1") == "Running at step 300 of 1,200."
    assert "RuntimeError: made up" in text_of(page, ".hero")
    assert "1.1 s" in text_of(page, ".hero") and "21 steps done again" in text_of(page, ".hero")
    figures = page.locator(".figure").all_inner_texts()
    assert [each.split("\n")[0] for each in figures] == [
        "progress", "loss", "steps/s", "tokens/s", "productive time", "restarts"]
    for figure, value in zip(figures, ["25.0%", "2.50", "5.25", "64.0k", "87.5%", "1"], strict=True):
        assert value in figure, figures
    restart = text_of(page, ".restarts tbody tr")
    for part in ("00:31", "rank 11 on machine 2 was killed by SIGKILL", "detect 50 ms", "stop 41 ms",
                 "wait 1.0 s", "spawn 12 ms", "start-up 706 ms", "steps redone 4.1 s", "warm"):
        assert part in restart, restart
    assert page.locator(".ranks .name.slow").all_inner_texts() == ["r9"]
    assert "Straggler: machine 2 (rank 9). The others wait 28%" in text_of(page, ".straggler")
    assert "55: loss 2.50" in text_of(page, "section:has(#curves)")
    assert "step 25 loss 9.1" in text_of(page, ".log")
    assert "all ranks running again" in text_of(page, ".log .event >> nth=1")


def test_each_tab_is_reached_by_its_key_and_shows_its_data(open_page, save):
    page = open_page(save(view())).page
    shown = {}
    for number, tab in enumerate(TABS, start=1):
        page.keyboard.press(str(number))
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == tab
        shown[tab] = text_of(page, "#panel")
    assert "The run has ended" in shown["Stacks"]
    for row in ("productive\t3m30s\t87.5%", "steps redone\t16.4 s\t6.83%", "ProcessSignal\t26.4 s"):
        assert row in shown["Ledger"], shown["Ledger"]
    page.keyboard.press("4")
    page.wait_for_selector(".picture img")
    assert "0-3" in text_of(page, "#panel") and "eth0" in text_of(page, "#panel")
    assert page.evaluate("document.querySelector('.picture img').naturalWidth") == 90
    assert "all ranks running again" in shown["Events"].split("\n")[0]


def test_log_is_searched_and_narrowed_to_a_rank_and_to_stderr(open_page, save):
    page = open_page(save(view())).page
    page.keyboard.press("/")
    page.keyboard.type("RUNTIME")
    assert page.locator(".log .line:not(.event)").all_inner_texts()[0].endswith("RuntimeError: made up")
    assert page.locator(".log .line:not(.event)").count() == 1
    page.fill("#find", "")
    page.get_by_label("stderr only").check()
    assert page.locator(".log .line:not(.event)").count() == 1
    page.get_by_label("stderr only").uncheck()
    page.get_by_label("rank", exact=True).select_option("0")
    assert page.locator(".log .line:not(.event)").all_inner_texts()[0].endswith("step 25 loss 9.1")
    assert page.locator(".log .line:not(.event)").count() == 1


def test_arrow_keys_choose_a_rank_which_is_spoken(open_page, save):
    page = open_page(save(view())).page
    page.keyboard.press("g")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    spoken = page.locator("[aria-live=polite]").first
    assert "rank 9, machine 2, Running, step 300, 190 milliseconds a step" in spoken.text_content()
    assert "machine 2, attempt 1, Running" in text_of(page, ".pick")
    assert text_of(page, ".pick").endswith("9")  # its CPU
    page.keyboard.press("Escape")
    assert "Choose a rank" in text_of(page, ".pick")


def test_grid_is_coloured_by_what_is_chosen(open_page, save):
    page = open_page(save(view())).page
    pixel = ("() => { const c = document.querySelector('canvas'); return Array.from("
             "c.getContext('2d').getImageData(c.width - 20, c.height - 6, 1, 1).data).join() }")
    colours = set()
    for by in ("state", "stepMs", "waitMs", "loss", "tokensPerSecond"):
        page.get_by_label("colour").select_option(by)
        colours.add(page.evaluate(pixel))
    assert len(colours) >= 3, colours


@pytest.mark.parametrize("state, reason, said", [
    ("Queued", "waits for 4 nodes", "Queued: waits for 4 nodes."),
    ("Restarting", "waiting 1 s", "Restarting: rank 11 on machine 2 was killed by SIGKILL."),
    ("Failed", "restarts are exhausted", "Failed: rank 3 exited with code 1."),
    ("Succeeded", "", "Succeeded after 1m00s, in spite of 1 restart."),
])
def test_sentence_says_the_state_and_its_cause(open_page, save, state, reason, said):
    made = view(state=state)
    made["status"]["reason"] = reason
    if state == "Failed":
        made["status"]["lastFailure"] = {"cause": "ProcessExit", "message": "rank 3 exited with code 1"}
    assert text_of(open_page(save(made)).page, "h1") == said


def test_gang_that_has_not_begun_shows_no_figure_that_nobody_knows(open_page, save):
    made = view(state="Pending", gang=None, series={"from": 0, "t": [], "step": []}, bindings=None,
                ranks={"by": "rank", "totalSteps": 0, "rank": []}, logs={}, topology=None,
                generations=listed(), events=listed())
    made["machines"] = {}
    made["status"] = {"state": "Pending", "reason": "agents are being started"}
    opened = open_page(save(made))
    assert text_of(opened.page, "h1") == "Pending: agents are being started."
    for number in "12345":
        opened.page.keyboard.press(number)
    assert opened.complaints == []
    assert "NaN" not in text_of(opened.page, "body") and "undefined" not in text_of(opened.page, "body")


def test_hostile_log_lines_names_and_messages_are_text(open_page, save):
    made = view(generations=listed(failed("1-1", 1.0, 150, HOSTILE, HOSTILE), generation("1-2", 33, 9)),
                events=listed({"t": 3.0, "text": HOSTILE}),
                logs={"0": [{"n": 1, "t": 3.0, "r": 0, "s": "out", "m": HOSTILE}]})
    made["job"].update(name=HOSTILE, where=HOSTILE)
    made["status"].update(reason=HOSTILE)
    made["machines"]["note"][0] = made["machines"]["state"][1] = HOSTILE
    made["gang"]["straggler"]["because"] = HOSTILE
    opened = open_page(save(made))
    for number in "12345":
        opened.page.keyboard.press(number)
    opened.page.keyboard.press("1")
    assert HOSTILE in text_of(opened.page, ".log .line >> nth=0")
    assert opened.page.locator("img[src=x], #app script").count() == 0
    assert opened.page.title().endswith("· Lockstep"), opened.page.title()
    # A picture's script doesn't run.
    assert SVG and opened.complaints == []


@pytest.mark.parametrize("width, theme, tabs", [
    (390, "dark", "1"), (1080, "light", ""), (1440, "light", "134"), (2560, "dark", "")])
def test_page_is_not_wider_than_its_window_and_axe_finds_nothing(open_page, save, width, theme, tabs):
    made = view()
    made["job"]["name"] = "a-job-" + "with-a-long-name-" * 9
    opened = open_page(save(made), size=(width, 900), theme=theme)
    assert opened.page.locator("html").get_attribute("data-theme") == theme
    assert opened.overflow() <= 0
    for number in tabs:
        opened.page.keyboard.press(number)
        assert opened.overflow() <= 0
        found = Axe().run(opened.page, options=AXE)
        assert found.violations_count == 0, found.generate_report()


def test_32768_ranks_are_drawn_within_the_frame_budget_and_the_straggler_is_named(open_page, save,
                                                                                  record_property):
    opened = open_page(save(huge()))
    page = opened.page
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    drawn = []
    for by in ("loss", "state"):
        page.get_by_label("colour").select_option(by)
        drawn.append(float(canvas.get_attribute("data-milliseconds")))
    record_property("milliseconds", drawn)
    print("milliseconds for 32,768 cells:", drawn)
    assert max(drawn) < DRAW, drawn
    assert "4,096 × 8" in text_of(page, "section:has(#grid)")
    assert page.locator(".ranks .slow").first.inner_text() == "m1234"
    page.keyboard.press("g")
    page.keyboard.press("End")
    page.keyboard.press("End")
    assert "rank 32,767, machine 4,095" in page.locator("[aria-live=polite]").first.text_content()
    assert opened.overflow() <= 0 and opened.complaints == []
