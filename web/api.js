// api.js: what the page asks the server.
import { EventParser } from "./sse.js";
import { apiKey } from "./store.js";

export class ApiError extends Error {
    // status 0: no answer at all. retryAfter: seconds, or null.
    constructor(message, status = 0, retryAfter = null) {
        super(message);
        this.status = status;
        this.retryAfter = retryAfter;
    }
}

async function errorOf(response) {
    const text = await response.text();
    let message = text.slice(0, 500) || `the server answered with status ${response.status}`;
    try {
        const parsed = JSON.parse(text);
        message = parsed.error?.message ?? parsed.message ?? message;
    } catch {
        // not JSON: the text itself
    }
    const retryAfter = Number.parseFloat(response.headers.get("retry-after"));
    return new ApiError(message, response.status, Number.isFinite(retryAfter) ? retryAfter : null);
}

function withKey(headers = {}) {
    const key = apiKey.get();
    return key ? {...headers, authorization: `Bearer ${key}`} : headers;
}

async function request(path, options = {}) {
    const headers = withKey(options.headers);
    let response;
    try {
        response = await fetch(path, {...options, headers, cache: "no-store", credentials: "omit"});
    } catch (cause) {
        if (cause.name === "AbortError") {
            throw cause;
        }
        throw new ApiError("the server does not answer");
    }
    if (!response.ok) {
        throw await errorOf(response);
    }
    return response;
}

export async function getJson(path, signal) {
    return (await request(path, {signal})).json();
}

export async function getText(path, signal) {
    return (await request(path, {signal})).text();
}

export async function getBlob(path) {
    return (await request(path)).blob();
}

export async function postJson(path, body) {
    return (await request(path, {method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify(body)})).json();
}

export async function remove(path) {
    await request(path, {method: "DELETE"});
}

async function readAnswer(xhr) {
    const headers = {"retry-after": xhr.getResponseHeader("retry-after") ?? ""};
    const response = new Response(xhr.responseText, {status: xhr.status, headers});
    if (!response.ok) {
        throw await errorOf(response);
    }
    return response.json();
}

// Sends a form. onProgress is told the share that has been sent, 0 to 1: fetch would not say it.
export function postForm(path, form, onProgress, signal) {
    return new Promise((resolve, reject) => {
        const xhr = new XMLHttpRequest();
        xhr.open("POST", path);
        Object.entries(withKey()).forEach(([name, value]) => xhr.setRequestHeader(name, value));
        xhr.upload.addEventListener("progress", ({loaded, total}) => onProgress(total > 0 ? loaded / total : 0));
        xhr.addEventListener("load", () => resolve(readAnswer(xhr)));
        xhr.addEventListener("error", () => reject(new ApiError("the connection was lost before the file was sent")));
        xhr.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
        signal.addEventListener("abort", () => xhr.abort());
        xhr.send(form);
    });
}

// The objects of a streamed chat completion, as they come. Ends after [DONE]; a stream that ends without it has been cut.
export async function* streamChat(body, signal) {
    const response = await request("/v1/chat/completions", {
        method: "POST",
        headers: {"content-type": "application/json"},
        body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
        signal,
    });
    const events = [];
    const parser = new EventParser((event) => events.push(event.data));
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    try {
        for (;;) {
            const {done, value} = await read(reader);
            if (done) {
                throw new ApiError("the connection was lost before the answer ended");
            }
            parser.feed(decoder.decode(value, {stream: true}));
            for (const data of events.splice(0)) {
                if (data === "[DONE]") {
                    return;
                }
                const chunk = JSON.parse(data);
                if (chunk.error) {
                    throw new ApiError(chunk.error.message ?? "the answer failed", response.status);
                }
                yield chunk;
            }
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}

async function read(reader) {
    try {
        return await reader.read();
    } catch (cause) {
        if (cause.name === "AbortError") {
            throw cause;
        }
        throw new ApiError("the connection was lost before the answer ended");
    }
}
