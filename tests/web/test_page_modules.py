"""The page's modules, alone, in Chromium: Markdown, server-sent events, Prometheus' text, what is stored."""
import pytest


@pytest.fixture(scope="module")
def page(browser, fake):
    page = browser.new_page()
    page.goto(fake.url)
    yield page
    page.close()


def html(page, text):
    return page.evaluate("""async (text) => {
        const {markdown} = await import("/web/markdown.js");
        const root = document.createElement("div");
        root.append(...markdown(text));
        return root.innerHTML;
    }""", text)


LINK = 'target="_blank" rel="noopener noreferrer nofollow"'


@pytest.mark.parametrize("text, expected", [
    ("", ""),
    ("one\ntwo\n\nthree", "<p>one<br>two</p><p>three</p>"),
    ("# Title #\n###### Deep", "<h3>Title</h3><h6>Deep</h6>"),
    ("#no heading", "<p>#no heading</p>"),
    ("a *b* **c** ***d*** ~~e~~ `f`", "<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong></em> <del>e</del> <code>f</code></p>"),
    ("*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"),
    ("*foo**bar**baz*", "<p><em>foo<strong>bar</strong>baz</em></p>"),
    ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
    ("**open and *never closed", "<p>**open and *never closed</p>"),
    (r"\*not\* \`code\` \q", r"<p>*not* `code` \q</p>"),
    ("`` a ` b `` and ``` open", "<p><code>a ` b</code> and ``` open</p>"),
    ("[text](https://a.example/x_(y) \"t\")", f'<p><a href="https://a.example/x_(y)" {LINK}>text</a></p>'),
    ("see https://a.example/b(c). End", f'<p>see <a href="https://a.example/b(c)" {LINK}>https://a.example/b(c)</a>. End</p>'),
    ("<https://a.example>", f'<p><a href="https://a.example/" {LINK}>https://a.example</a></p>'),
    ("[*a*] [b](c d", "<p>[<em>a</em>] [b](c d</p>"),
    ("- a\n- b\n  - c\n\n1. d\n2. e", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><ol start=\"1\"><li>d</li><li>e</li></ol>"),
    ("3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'),
    ("In\n1986. A year.", "<p>In<br>1986. A year.</p>"),
    ("- [x] done\n- [ ] open", '<ul><li class="task"><input type="checkbox" disabled="" checked="" aria-label="done">done</li>'
                             '<li class="task"><input type="checkbox" disabled="" aria-label="done">open</li></ul>'),
    ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("a\n\n---\n***\n", "<p>a</p><hr><hr>"),
    ("|a|b|\n|-|:-:|\n|`c`|d|\n|only|", '<div class="table" tabindex="0"><table><thead><tr><th class="left">a</th><th class="center">b</th></tr></thead>'
     '<tbody><tr><td class="left"><code>c</code></td><td class="center">d</td></tr><tr><td class="left">only</td></tr></tbody></table></div>'),
    ("a | b is no table", "<p>a | b is no table</p>"),
])
def test_markdown(page, text, expected):
    assert html(page, text) == expected


def test_fenced_code_keeps_its_text(page):
    text = "- item\n\n  ```py x\n  if a:\n\n      b < c\n  ```\n\n~~~\n``` inside\n~~~\n```\nnever closed *x*"
    found = page.evaluate("""async (text) => {
        const {markdown} = await import("/web/markdown.js");
        const root = document.createElement("div");
        root.append(...markdown(text));
        return [...root.querySelectorAll("figure")].map((f) => [f.querySelector("span").textContent, f.querySelector("code").textContent]);
    }""", text)
    assert found == [["py", "if a:\n\n    b < c"], ["text", "``` inside"], ["text", "never closed *x*"]]


@pytest.mark.parametrize("language, text, expected", [
    ("c", 'int x = 0x1F; /* "a" */ f("b // c");', [["word", "int"], ["number", "0x1F"], ["comment", '/* "a" */'], ["string", '"b // c"']]),
    ("Python", "def f():\n    return 'it\\'s' # x 1", [["word", "def"], ["word", "return"], ["string", "'it\\'s'"], ["comment", "# x 1"]]),
    ("sql", "SELECT 1 -- x", [["word", "SELECT"], ["number", "1"], ["comment", "-- x"]]),
    ("unknown", "int x = 1;", []),
    ("js", "/* open `", [["comment", "/* open `"]]),
    ("js", "`a\n${b}` \"open\nlet", [["string", "`a\n${b}`"], ["string", '"open'], ["word", "let"]]),
])
def test_code_gets_colours_and_keeps_its_text(page, language, text, expected):
    found = page.evaluate("""async ([language, text]) => {
        const {highlight} = await import("/web/highlight.js");
        const root = document.createElement("code");
        root.append(...highlight(text, language));
        return [root.textContent, [...root.children].map((node) => [node.className.slice("code-".length), node.textContent])];
    }""", [language, text])
    assert found == [text, expected]


HOSTILE = [
    "<script>window.hit = 1</script>", "<img src=x onerror='window.hit = 1'>", "[x](javascript:window.hit=1)", "[x](JaVaScRiPt:window.hit=1)",
    "[x](\tjavascript:window.hit=1)", "[x](data:text/html,<script>window.hit=1</script>)", "[x](vbscript:x)", "![x](https://evil.example/pixel.png)",
    "<javascript:window.hit=1>", "[x](//evil.example)", "[x](<javascript:window.hit=1>)", "```\"><script>window.hit = 1</script>\nx\n```",
    "<iframe srcdoc='<script>parent.hit = 1</script>'>", "<svg onload='window.hit = 1'>", "| <script>a</script> |\n|---|\n| <b>b</b> |",
    "<https://a.example/\"onmouseover=\"window.hit=1>", "# <style>body{display:none}</style>", "- <a href='javascript:window.hit=1'>x</a>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_text(page, text):
    found = page.evaluate("""async (text) => {
        const {markdown} = await import("/web/markdown.js");
        const root = document.createElement("div");
        root.append(...markdown(text));
        document.body.append(root);
        root.querySelectorAll("a").forEach((a) => a.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})));
        const names = [...root.querySelectorAll("*")].map((node) => node.localName);
        const protocols = [...root.querySelectorAll("a")].map((a) => a.protocol);
        const handlers = [...root.querySelectorAll("*")].flatMap((node) => node.getAttributeNames().filter((a) => a.startsWith("on")));
        root.remove();
        return {names, protocols, handlers, hit: window.hit ?? null};
    }""", text)
    assert not set(found["names"]) & {"script", "img", "iframe", "style", "object", "embed", "b"}
    assert set(found["protocols"]) <= {"http:", "https:", "mailto:"}
    assert found["handlers"] == [] and found["hit"] is None


def test_growing_hostile_texts_cost_linear_time(page):
    """Eight times the text takes about eight times as long; quadratic work would take sixty-four times, at every try."""
    texts = ["*a **b ", "[", "](", "`" * 3 + " ` ", "> ", "- ", "https://a", "<http://", "_a*", "|-", "[a](\"", "![", "```c\n\"\n```\n", "```c\n/*`\"\\"]
    slow = page.evaluate("""async (texts) => {
        const {markdown} = await import("/web/markdown.js");
        const time = (text) => {
            const begin = performance.now();
            markdown(text);
            return performance.now() - begin;
        };
        const isLinear = (text) => time(text.repeat(16000)) < 32 * Math.max(time(text.repeat(2000)), 2);
        return texts.filter((text) => !Array.from({length: 10}).some(() => isLinear(text)));
    }""", texts)
    assert slow == []


def test_growing_text_is_shown_as_the_whole(page):
    """However an answer is cut, the view ends as if it had come at once, and what is finished is not built again."""
    text = "# A\n\ntext *b*\n\n```c\nint x;\nint y;\n```\n\n- one\n- two\n\n| a |\n|---|\n| b |\n\nend"
    found = page.evaluate("""async (text) => {
        const {markdown, MarkdownView} = await import("/web/markdown.js");
        const whole = document.createElement("div");
        whole.append(...markdown(text));
        const wrong = [1, 2, 3, 7].filter((size) => {
            const root = document.createElement("div");
            const view = new MarkdownView(root);
            for (let n = 0; n < text.length + size; n += size) {
                view.update(text.slice(0, n));
            }
            return root.innerHTML !== whole.innerHTML;
        });
        const root = document.createElement("div");
        const view = new MarkdownView(root);
        view.update(text.slice(0, 26));
        const first = root.firstChild;
        const code = root.querySelector("code").firstChild;
        view.update(text.slice(0, 30));
        return [wrong, root.firstChild === first, root.querySelector("code").firstChild === code];
    }""", text)
    assert found == [[], True, True]


def test_a_shrinking_text_is_shown_too(page):
    assert page.evaluate("""async () => {
        const {MarkdownView} = await import("/web/markdown.js");
        const root = document.createElement("div");
        const view = new MarkdownView(root);
        view.update("a\\n\\nb");
        view.update("c");
        return root.innerHTML;
    }""") == "<p>c</p>"


@pytest.mark.parametrize("stream, expected", [
    ("data: a\n\ndata: b\n\n", [["message", "a"], ["message", "b"]]),
    ("data: a\r\n\r\ndata:b\r\rdata: c\n\n", [["message", "a"], ["message", "b"], ["message", "c"]]),
    (": keep-alive\n\nevent: error\ndata: x\ndata\ndata:  y\nid: 3\n\n", [["error", "x\n\n y"]]),
    ("event: lonely\n\ndata: unfinished\n", []),
    ("data: é€😀\n\n", [["message", "é€😀"]]),
])
def test_events_however_they_are_cut(page, stream, expected):
    found = page.evaluate("""async (stream) => {
        const {EventParser} = await import("/web/sse.js");
        return [1, 2, 3, 1000].map((size) => {
            const events = [];
            const parser = new EventParser(({type, data}) => events.push([type, data]));
            for (let i = 0; i < stream.length; i += size) {
                parser.feed(stream.slice(i, i + size));
                parser.feed("");
            }
            return events;
        });
    }""", stream)
    assert found == [expected] * 4


PAGE_TEXT = r'''# HELP a_total Things.
# TYPE a_total counter
a_total{model="m",outcome="stop"} 5
a_total{model="m",outcome="a\"b\\c,}\n"} 2 1700000000000
broken line {
vllm:load 0.25
nothing NaN
t_seconds_bucket{le="0.1"} 10
t_seconds_bucket{le="1"} 30
t_seconds_bucket{le="+Inf"} 40
t_seconds_sum 25.5
t_seconds_count 40
'''


def test_prometheus_text(page):
    found = page.evaluate("""async (text) => {
        const {Metrics} = await import("/web/prometheus.js");
        const m = new Metrics(text);
        return [m.get("a_total"), m.get("a_total", {outcome: "stop"}), m.all("a_total")[1].labels.outcome, m.get("vllm:load"), m.get("no_such"),
            m.get("a_total", {outcome: "none"}), Number.isNaN(m.get("nothing")), m.histogram("no_such"), m.histogram("t_seconds").counts];
    }""", PAGE_TEXT)
    assert found == [7, 5, 'a"b\\c,}\n', 0.25, None, None, True, None, [10, 30, 40]]


def test_quantiles_of_what_lies_between_two_scrapes(page):
    found = page.evaluate("""async () => {
        const {difference, Metrics, quantile} = await import("/web/prometheus.js");
        const scrape = (a, b, c) => new Metrics(`t_bucket{le="0.1"} ${a}\\nt_bucket{le="1"} ${b}\\nt_bucket{le="+Inf"} ${c}\\n`).histogram("t");
        const h = difference(scrape(10, 30, 40), scrape(10, 10, 20));
        return [h.counts, quantile(h, 0.5), quantile(h, 0.99), quantile(difference(h, h), 0.5), quantile(null, 0.5), quantile(scrape(4, 4, 4), 0.5)];
    }""")
    assert found == [[0, 20, 20], pytest.approx(0.55), pytest.approx(0.991), None, None, pytest.approx(0.05)]


def test_the_oldest_conversations_make_room(page):
    found = page.evaluate("""async () => {
        const {conversations, MAX_CHARACTERS, MAX_CONVERSATIONS} = await import("/web/store.js");
        conversations.clear();
        const make = (i, text) => ({id: `c${i}`, title: `t${i}`, updated: i, messages: [{role: "user", content: text}]});
        for (let i = 0; i < MAX_CONVERSATIONS + 5; i++) {
            conversations.save(make(i, "x"));
        }
        const afterCount = conversations.list().map((c) => c.updated);
        const saved = conversations.save(make(1000, "y".repeat(MAX_CHARACTERS)));
        const afterSize = conversations.list().map((c) => c.id);
        const tooLarge = conversations.save(make(1001, "z".repeat(20_000_000)));
        localStorage.setItem("millrace.conversation.bad", "{");
        localStorage.setItem("millrace.conversation.odd", '{"id": "odd", "title": "", "updated": 1, "messages": [{"role": "system"}]}');
        const afterDamage = conversations.list().length;
        conversations.clear();
        return {newest: afterCount[0], oldest: afterCount.at(-1), saved, afterSize, tooLarge, afterDamage, left: localStorage.length};
    }""")
    assert (found["newest"], found["oldest"]) == (54, 5)
    assert found["saved"] and found["afterSize"] == ["c1000"]
    assert not found["tooLarge"] and found["afterDamage"] == 0
    assert found["left"] == 0


def test_the_key_is_kept_in_the_tab_unless_asked(page):
    found = page.evaluate("""async () => {
        const {apiKey} = await import("/web/store.js");
        apiKey.set("secret", false);
        const inTab = [localStorage.getItem("millrace.key"), apiKey.get(), apiKey.isRemembered()];
        apiKey.set("secret", true);
        const kept = [sessionStorage.getItem("millrace.key"), apiKey.get(), apiKey.isRemembered()];
        apiKey.set("", true);
        return [inTab, kept, apiKey.get()];
    }""")
    assert found == [[None, "secret", False], [None, "secret", True], ""]


def test_axis_ends_at_round_numbers(page):
    found = page.evaluate("""async () => {
        const {roundUp} = await import("/web/charts.js");
        return [0, 0.003, 0.1, 1, 1.1, 20, 51, 999, NaN].map(roundUp);
    }""")
    assert found == pytest.approx([1, 0.005, 0.1, 1, 2, 20, 100, 1000, 1])


def test_readings_begin_anew_when_counters_do(page):
    found = page.evaluate("""async () => {
        const {NAMES, Readings} = await import("/web/readings.js");
        const text = (n) => `${NAMES.answerTokens} ${n}\\n`;
        const r = new Readings();
        const fresh = [r.add(text(100), 0), r.add(text(150), 1000), r.add(text(10), 2000)];
        const alone = r.rate("answerTokens", 3000);
        r.add(text(30), 3000);
        return [fresh, alone, r.rate("answerTokens", 3000), r.rate("promptTokens", 3000)];
    }""")
    assert found == [[True, True, False], None, 20, None]


@pytest.mark.parametrize("seconds, text", [(-5, "0 s"), (0.4, "0 s"), (59, "59 s"), (60, "1 min"), (61.2, "1 min 1 s"), (3600, "1 h"),
                                           (3659, "1 h"), (7260, "2 h 1 min"), (86400 * 20 + 7200, "20 d 2 h")])
def test_durations(page, seconds, text):
    assert page.evaluate("""async (seconds) => (await import("/web/job.js")).duration(seconds)""", seconds) == text
