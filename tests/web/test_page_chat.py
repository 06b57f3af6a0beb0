"""The page against a server that misbehaves on request: answers, errors, keys, history, keyboard, phone, light and dark."""
import re

import pytest
from playwright.sync_api import expect

from fake_server import FakeServer

FAILED_REQUEST = ["Failed to load resource"]  # what a browser says of every answer that is no success


def say(page, text):
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def answers(page):
    return page.locator(".assistant")


def done(page):
    expect(page.locator("#send")).to_have_text("Send")


def test_an_answer_to_its_end(open_page, fake):
    page = open_page(fake.url)
    expect(page.locator("#status")).to_have_text("fake")
    say(page, "say Hello **you**")
    done(page)
    expect(answers(page).locator("strong")).to_have_text("you")
    expect(answers(page).locator(".meta")).to_contain_text(re.compile(r"40 tokens · [\d.]+ tokens/s · first token after \d+ ms"))
    expect(page.locator("#context")).to_have_text("60 of 2048 tokens")
    expect(page.locator("#announce")).to_have_text("Answer complete.")
    page.watched.check()


def test_settings_become_fields_of_the_request(open_page, fake):
    page = open_page(fake.url)
    expect(page.locator("#status")).to_have_text("fake")
    page.locator("#open-settings").click()
    page.locator("#set-system").fill("Be brief.")
    page.locator("#set-temperature").fill("0.5")
    page.locator("#set-top_k").fill("7")
    page.locator("#set-max_tokens").fill("99")
    page.locator("#set-seed").fill("3")
    page.locator("#set-stop").fill("END\n\nSTOP")
    page.locator("#set-top_p").fill("7")  # out of range: told, and not sent
    expect(page.locator(".field", has=page.locator("#set-top_p")).locator(".error")).not_to_be_empty()
    page.get_by_role("button", name="Close").click()
    page.reload()
    expect(page.locator("#status")).to_have_text("fake")
    say(page, "say x")
    done(page)
    body = fake.requests[-1]
    assert body == {"model": "fake", "temperature": 0.5, "top_k": 7, "max_tokens": 99, "seed": 3, "stop": ["END", "STOP"], "stream": True,
                    "stream_options": {"include_usage": True}, "messages": [{"role": "system", "content": "Be brief."},
                                                                            {"role": "user", "content": "say x"}]}
    page.locator("#open-settings").click()
    page.locator("#reset-settings").click()
    expect(page.locator("#set-system")).to_have_value("")
    page.watched.check()


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_stop_leaves_and_keeps_what_came(open_page, fake, how):
    page = open_page(fake.url)
    left = fake.left
    say(page, "slow")
    expect(answers(page)).to_contain_text("word3")
    page.locator("#send").click() if how == "button" else page.keyboard.press("Escape")
    done(page)
    expect(answers(page).locator(".meta")).to_contain_text("stopped")
    page.wait_for_timeout(200)
    assert fake.left == left + 1
    say(page, "say next")
    done(page)
    assert [m["role"] for m in fake.requests[-1]["messages"]] == ["user", "assistant", "user"]
    assert fake.requests[-1]["messages"][1]["content"].startswith("word0 word1")
    page.watched.check()


def test_edit_sends_the_changed_message_and_drops_what_followed(open_page, fake):
    page = open_page(fake.url)
    for text in ("say one", "say two"):
        say(page, text)
        done(page)
    page.locator(".user").first.get_by_role("button", name="Edit and send again").click()
    area = page.get_by_role("textbox", name="Edit message")
    expect(area).to_have_value("say one")
    area.press("Escape")
    expect(page.locator(".user .text").first).to_have_text("say one")
    page.locator(".user").first.get_by_role("button", name="Edit and send again").click()
    area.fill("say changed")
    area.press("Enter")
    done(page)
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).to_contain_text("changed")
    assert fake.requests[-1]["messages"] == [{"role": "user", "content": "say changed"}]
    page.watched.check()


def test_retry_answers_the_same_question_again(open_page, fake):
    page = open_page(fake.url)
    say(page, "say one")
    done(page)
    page.get_by_role("button", name="Answer again").click()
    done(page)
    expect(answers(page)).to_have_count(1)
    assert fake.requests[-1] == fake.requests[-2]
    page.watched.check()


def test_edit_while_an_answer_streams_ends_it(open_page, fake):
    page = open_page(fake.url)
    say(page, "slow")
    expect(answers(page)).to_contain_text("word1")
    page.get_by_role("button", name="Edit and send again").click()
    page.get_by_role("textbox", name="Edit message").fill("say instead")
    page.get_by_role("textbox", name="Edit message").press("Enter")
    done(page)
    expect(answers(page)).to_contain_text("instead")
    expect(answers(page)).to_have_count(1)
    page.watched.check()


def test_reasoning_is_folded(open_page, fake):
    page = open_page(fake.url)
    say(page, "think")
    done(page)
    expect(answers(page)).to_contain_text("Then I speak.")
    expect(page.get_by_text("First I think.")).to_be_hidden()
    page.get_by_text("Reasoning").click()
    expect(page.get_by_text("First I think.")).to_be_visible()
    say(page, "say x")
    done(page)
    assert fake.requests[-1]["messages"][1] == {"role": "assistant", "content": "Then I speak."}
    page.watched.check()


@pytest.mark.parametrize("text, told, kept", [
    ("status 400", "this was asked for.", ""),
    ("status 429", "this was asked for. Try again in 2 s.", ""),
    ("status 503", "this was asked for.", ""),
    ("break", "the engine has lost a row.", "Some words, then"),
    ("cut", "the connection was lost before the answer ended.", "Some words, then"),
])
def test_errors_are_told_and_can_be_retried(open_page, fake, text, told, kept):
    page = open_page(fake.url)
    say(page, text)
    expect(page.get_by_role("alert")).to_have_text(told)
    expect(answers(page)).to_contain_text(kept)
    count = len(fake.requests)
    page.get_by_role("button", name="Answer again").click()
    expect(page.get_by_role("alert")).to_have_text(told)
    assert len(fake.requests) == count + 1 and fake.requests[-1]["messages"] == [{"role": "user", "content": text}]
    page.watched.check(FAILED_REQUEST)


def test_a_server_with_a_key(open_page):
    server = FakeServer(api_key="secret").start()
    page = open_page(server.url)
    expect(page.locator("#status")).to_have_text("API key needed")
    say(page, "say x")
    expect(page.locator("#set-key")).to_be_focused()
    page.locator("#set-key").fill("secret")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("fake")
    page.get_by_role("button", name="Answer again").click()
    done(page)
    expect(answers(page)).to_contain_text("x")
    page.watched.check(FAILED_REQUEST)
    server.shutdown()


def test_history_is_kept_and_can_be_deleted(open_page, fake):
    page = open_page(fake.url)
    hostile = "say <img src=x onerror=alert(1)>"
    say(page, hostile)
    done(page)
    page.get_by_role("button", name="New chat").click()
    say(page, "say second")
    done(page)
    page.reload()
    titles = page.locator("#history-list .title")
    expect(titles).to_have_text(["say second", hostile])
    expect(page.locator(".user .text")).to_have_text("say second")
    titles.nth(1).click()
    expect(page.locator(".user .text")).to_have_text(hostile)
    assert page.locator("#view-chat img").count() == 0
    page.get_by_role("button", name="Delete “say second”").click()
    expect(titles).to_have_text([hostile])
    page.get_by_role("button", name="Delete all").click()
    expect(titles).to_have_count(0)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    page.watched.check()


def test_switching_while_an_answer_streams_keeps_what_came(open_page, fake):
    page = open_page(fake.url)
    say(page, "slow")
    expect(answers(page)).to_contain_text("word2")
    page.get_by_role("button", name="New chat").click()
    expect(answers(page)).to_have_count(0)
    page.get_by_role("button", name="slow", exact=True).click()
    expect(answers(page)).to_contain_text("word2")
    expect(answers(page).locator(".meta")).to_contain_text("stopped")
    page.watched.check()


def test_a_hostile_answer_is_inert(open_page, fake):
    page = open_page(fake.url)
    say(page, "huge")
    done(page)
    expect(answers(page)).to_contain_text("<script>window.hit = 1</script><img src=x")
    assert page.evaluate("window.hit ?? null") is None
    assert page.locator(".assistant script, .assistant img, .assistant a").count() == 0
    assert page.evaluate("document.querySelector('.assistant code').textContent.length") > 120_000
    page.watched.check()


def test_code_and_answers_are_copied(open_page, fake):
    page = open_page(fake.url, permissions=["clipboard-read", "clipboard-write"])
    say(page, "say ```c\nint x;\n```")
    done(page)
    page.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()") == "int x;"
    page.get_by_role("button", name="Copy answer").click()
    assert page.evaluate("navigator.clipboard.readText()") == "```c\nint x;\n```"
    page.watched.check()


def test_keyboard_alone(open_page, fake):
    page = open_page(fake.url)
    expect(page.locator("#prompt")).to_be_focused()
    page.keyboard.type("say one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    done(page)
    assert fake.requests[-1]["messages"][-1]["content"] == "say one\ntwo"
    expect(page.locator("#prompt")).to_be_focused()

    order = []
    for _ in range(30):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()")
        if name in order:
            break
        if page.evaluate("document.activeElement !== document.body"):
            order.append(name)
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none" or name == "Message"
    for name in ("Send", "Chat", "Jobs", "Dashboard", "Colours: as the system", "Settings", "New chat", "Delete all", "Copy message",
                 "Edit and send again", "Copy answer", "Answer again"):
        assert name in order, (name, order)

    page.locator("#open-settings").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Settings")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#open-settings")).to_be_focused()
    page.watched.check()


def test_every_control_has_a_name(open_page, fake):
    page = open_page(fake.url)
    say(page, "say ```\nx\n```")
    done(page)
    page.locator("#open-settings").click()
    assert page.evaluate("""() => [...document.querySelectorAll("button, input, textarea, select, a")].filter((node) =>
        !(node.getAttribute("aria-label") || node.labels?.length || node.textContent.trim())).map((node) => node.outerHTML)""") == []
    assert page.evaluate("""() => { const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
        return ids.filter((id, i) => ids.indexOf(id) !== i); }""") == []


WIDE = "say " + "x" * 300 + "\n\n```\n" + "wide " * 80 + "\n```\n\n|" + " column |" * 12 + "\n|" + "-|" * 12 + "\n|" + " 1 |" * 12


def test_a_phone_of_360_pixels(open_page, fake):
    page = open_page(fake.url, viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)

    def fits():
        return page.evaluate("document.documentElement.scrollWidth <= 360 && document.getElementById('scroll').scrollWidth <= 360")

    say(page, WIDE)
    done(page)
    assert fits()
    page.locator("#menu").click()
    expect(page.locator("#new-chat")).to_be_in_viewport()
    expect(page.locator("#new-chat")).to_be_focused()
    page.locator("#new-chat").click()
    expect(page.locator("#new-chat")).not_to_be_in_viewport()
    page.locator("#open-settings").click()
    assert page.evaluate("document.getElementById('settings').scrollWidth <= 360") and fits()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Dashboard").click()
    expect(page.locator(".tile").first).to_be_visible()
    page.wait_for_timeout(300)
    assert fits() and page.evaluate("document.getElementById('view-dashboard').scrollWidth <= 360")
    page.watched.check()


def paper(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark(open_page, fake):
    page = open_page(fake.url, color_scheme="dark")
    dark = paper(page)
    page.emulate_media(color_scheme="light")
    light = paper(page)
    assert light != dark
    button = page.locator("#theme")
    for name, colour in [("light", light), ("dark", dark), ("as the system", light), ("light", light), ("dark", dark)]:
        button.click()
        expect(button).to_have_attribute("aria-label", f"Colours: {name}")
        assert paper(page) == colour
    page.reload()
    assert paper(page) == dark
    page.watched.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(open_page, fake, scheme):
    """Contrast of at least 4.5 to 1 (WCAG 2.1, 1.4.3) for every colour of text on every ground that it is used on."""
    page = open_page(fake.url, color_scheme=scheme)
    low = page.evaluate("""() => {
        const probe = document.body.appendChild(document.createElement("i"));
        const luminance = (name) => {
            probe.style.color = `var(--${name})`;
            const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map((c) => c / 255).map((c) =>
                c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
        const pairs = ["ink", "muted", "accent", "danger"].flatMap((text) => ["paper", "surface", "sunken", "tint"].map((ground) => [text, ground]));
        return [...pairs, ...["violet", "green", "amber", "muted"].map((text) => [text, "sunken"]), ["on-accent", "accent"]].map(([a, b]) => [a, b, contrast(a, b)]).filter(([, , c]) => c < 4.5);
    }""")
    assert low == []


def test_the_dashboard_moves(open_page, fake):
    page = open_page(f"{fake.url}/#dashboard")
    expect(page).to_have_title("Millrace – dashboard")
    expect(page.get_by_role("link", name="Dashboard")).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("link", name="Chat")).not_to_have_attribute("aria-current", "page")
    requests = page.locator(".tile", has_text="Requests").locator("strong")
    expect(requests).to_have_text(re.compile(r"\d+"))
    first = requests.inner_text()
    expect(requests).not_to_have_text(first)
    expect(page.locator(".tile", has_text="Tokens a second").locator("strong")).to_have_text(re.compile(r"^[1-9]"))
    expect(page.locator(".tile", has_text="First token").locator("strong")).to_have_text(re.compile(r"ms$"))
    expect(page.locator(".slots .busy")).to_have_count(3)
    expect(page.get_by_role("img", name="Here: receive")).to_be_visible()
    assert page.evaluate("""() => { const c = document.querySelector(".blocks canvas");
        return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((x) => x > 0); }""")
    assert page.evaluate("document.querySelector('.line').getAttribute('d').length") > 10
    page.watched.check()


def test_the_dashboard_asks_only_while_it_is_seen(open_page, fake):
    page = open_page(f"{fake.url}/#dashboard")
    expect(page.locator(".tile", has_text="Requests").locator("strong")).to_have_text(re.compile(r"\d"))
    page.get_by_role("link", name="Chat").click()
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.wait_for_timeout(1500)
    assert asked == []
    page.watched.check()


def test_the_dashboard_tells_that_the_server_is_gone(open_page):
    server = FakeServer().start()
    page = open_page(f"{server.url}/#dashboard")
    expect(page.locator(".tile", has_text="Requests").locator("strong")).to_have_text(re.compile(r"\d"))
    server.shutdown()
    server.server_close()
    page.route("**/metrics", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_have_text("No figures: the server does not answer.")
    page.watched.check(FAILED_REQUEST)
