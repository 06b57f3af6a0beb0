// inline.js: Markdown within a paragraph, to nodes. Emphasis follows CommonMark's rules of flanking runs; markup stays text,
// images become links, and a link leads to http, https or mailto alone. Work is linear in the text: the stack of what is open
// has a limit, as have link targets.
import { el } from "./dom.js";

const MAX_OPEN = 64;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const ESCAPED = /[!-/:-@[-`{-~]/;
const PLAIN = /h?[^\\`<!\[\]*_~\nh]+|h/y;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const BARE_LINK = /https?:\/\/[^\s<>*`|]{1,2000}/y;
const TARGET = /\(\s{0,9}(?:<([^<>\n]{0,2000})>|((?:[^\s()]|\([^\s()]{0,500}\)){0,2000}))(?:\s{1,9}(?:"[^"]{0,500}"|'[^']{0,500}'))?\s{0,9}\)/y;

export function safeUrl(text) {
    try {
        const url = new URL(text);
        return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch {
        return null;
    }
}

function link(target, children) {
    const href = safeUrl(target);
    return href === null ? el("span", {}, ...children)
        : el("a", {href, target: "_blank", rel: "noopener noreferrer nofollow"}, ...children);
}

function matchAt(pattern, text, i) {
    pattern.lastIndex = i;
    return pattern.exec(text);
}

class InlineParser {
    constructor(text) {
        this.text = text;
        this.i = 0;
        this.frames = [{mark: "", count: 0, children: []}]; // what is open: marks of emphasis and brackets
        this.noCodeEnd = new Set(); // lengths of runs of backticks that do not occur again
    }

    add(node) {
        const {children} = this.frames.at(-1);
        if (typeof node === "string" && typeof children.at(-1) === "string") {
            children.push(children.pop() + node);
        } else {
            children.push(node);
        }
    }

    // The innermost frame is no emphasis or link: its mark is text.
    flatten() {
        const frame = this.frames.pop();
        [frame.mark.repeat(frame.count), ...frame.children].forEach((child) => this.add(child));
    }

    open(mark, count, both) {
        if (this.frames.length < MAX_OPEN) {
            this.frames.push({mark, count, both, children: []});
        } else {
            this.add(mark.repeat(count));
        }
    }

    code() {
        const run = /`+/y;
        run.lastIndex = this.i;
        const ticks = run.exec(this.text)[0];
        const begin = this.i + ticks.length;
        let end = this.noCodeEnd.has(ticks.length) ? -1 : begin;
        while (end >= 0) {
            end = this.text.indexOf(ticks, end);
            if (end < 0) {
                this.noCodeEnd.add(ticks.length);
                break;
            }
            run.lastIndex = end;
            const found = run.exec(this.text)[0].length;
            if (found === ticks.length) {
                const inner = this.text.slice(begin, end).replaceAll("\n", " ");
                const padded = inner.length > 2 && inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
                this.add(el("code", {}, padded ? inner.slice(1, -1) : inner));
                this.i = end + found;
                return;
            }
            end += found;
        }
        this.add(ticks);
        this.i = begin;
    }

    // A run of * _ or ~, which may open or close emphasis, by what stands beside it.
    emphasis(mark) {
        let end = this.i;
        while (this.text[end] === mark) {
            end++;
        }
        let count = end - this.i;
        const before = this.text[this.i - 1] ?? " ";
        const after = this.text[end] ?? " ";
        const isLeft = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
        const isRight = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
        const isWord = mark === "_"; // no emphasis inside snake_case
        const canOpen = isLeft && (!isWord || !isRight || PUNCTUATION.test(before));
        const canClose = isRight && (!isWord || !isLeft || PUNCTUATION.test(after));
        this.i = end;
        if (mark === "~" && count !== 2) {
            this.add(mark.repeat(count));
            return;
        }
        while (canClose && count > 0) {
            const used = this.close(mark, count, canOpen && canClose);
            if (used === 0) {
                break;
            }
            count -= used;
        }
        if (count > 0 && canOpen) {
            this.open(mark, count, canOpen && canClose);
        } else if (count > 0) {
            this.add(mark.repeat(count));
        }
    }

    // Ends the innermost emphasis that a run of count marks may end. Returns the marks used.
    close(mark, count, both) {
        const k = this.frames.findLastIndex((f) => f.mark === mark &&
            !((f.both || both) && (f.count + count) % 3 === 0 && (f.count % 3 !== 0 || count % 3 !== 0)));
        if (k < 1) {
            return 0;
        }
        while (this.frames.length > k + 1) {
            this.flatten();
        }
        const frame = this.frames.pop();
        const used = Math.min(2, frame.count, count);
        const name = mark === "~" ? "del" : used === 2 ? "strong" : "em";
        const node = el(name, {}, ...frame.children);
        if (frame.count > used) {
            this.frames.push({...frame, count: frame.count - used, children: [node]});
        } else {
            this.add(node);
        }
        return used;
    }

    closeBracket() {
        this.i++;
        const k = this.frames.findLastIndex((f) => f.mark === "[" || f.mark === "![");
        if (k < 1) {
            this.add("]");
            return;
        }
        const target = matchAt(TARGET, this.text, this.i);
        while (this.frames.length > k + 1) {
            this.flatten();
        }
        if (target === null) {
            this.flatten();
            this.add("]");
            return;
        }
        this.i += target[0].length;
        const {mark, children} = this.frames.pop();
        this.add(link(target[1] ?? target[2], mark === "![" && children.length === 0 ? ["image"] : children));
    }

    bareLink() {
        const found = /\w/.test(this.text[this.i - 1] ?? "") ? null : matchAt(BARE_LINK, this.text, this.i);
        if (found === null) {
            return false;
        }
        let url = found[0].replace(/[.,;:!?'"\])}]{1,50}$/, "");
        if (url.includes("(") && found[0][url.length] === ")") {
            url += ")";
        }
        this.add(link(url, [url]));
        this.i += url.length;
        return true;
    }

    step() {
        const c = this.text[this.i];
        const next = this.text[this.i + 1];
        if (c === "\\" && next !== undefined && (next === "\n" || ESCAPED.test(next))) {
            this.add(next === "\n" ? el("br") : next);
            this.i += 2;
        } else if (c === "`") {
            this.code();
        } else if (c === "*" || c === "_" || c === "~") {
            this.emphasis(c);
        } else if (c === "[" || (c === "!" && next === "[")) {
            this.open(c === "[" ? "[" : "![", 1, false);
            this.i += c === "[" ? 1 : 2;
        } else if (c === "]") {
            this.closeBracket();
        } else if (c === "\n") {
            this.add(el("br"));
            this.i++;
        } else {
            this.rest(c);
        }
    }

    rest(c) {
        const auto = c === "<" ? matchAt(AUTOLINK, this.text, this.i) : null;
        if (auto !== null) {
            this.add(link(auto[1], [auto[1]]));
            this.i += auto[0].length;
        } else if (c !== "h" || !this.bareLink()) {
            const plain = matchAt(PLAIN, this.text, this.i)?.[0] ?? c;
            this.add(plain);
            this.i += plain.length;
        }
    }

    run() {
        while (this.i < this.text.length) {
            this.step();
        }
        while (this.frames.length > 1) {
            this.flatten();
        }
        return this.frames[0].children;
    }
}

// Nodes and strings, to be appended.
export function inline(text) {
    return new InlineParser(text).run();
}
