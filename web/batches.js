// batches.js: files of requests and their batches, as OpenAI's API has them.
import { ApiError, getBlob, getJson, postForm, postJson, remove } from "./api.js";
import { el } from "./dom.js";
import { apiKey } from "./store.js";

export const ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"];
const ENDED = ["completed", "failed", "expired", "cancelled"];
const CANCELLABLE = ["validating", "in_progress"];
const LOOKED_AT = 1 << 20; // bytes of a file in which an endpoint is sought
const NAMES_MAX = 10_000;
const KEEP_MS = 60_000; // of what is being saved

export const hasEnded = (batch) => ENDED.includes(batch.status);
export const canCancel = (batch) => CANCELLABLE.includes(batch.status);

function urlOf(line) {
    try {
        return JSON.parse(line)?.url;
    } catch {
        return null; // the server tells what is wrong with it
    }
}

// The url of the first request of a file that has a known one.
export async function endpointOf(file) {
    let text;
    try {
        text = await file.slice(0, LOOKED_AT).text();
    } catch {
        throw new ApiError("it cannot be read");
    }
    const found = text.split("\n").map(urlOf).find((url) => ENDPOINTS.includes(url));
    if (found === undefined) {
        throw new ApiError("its first lines name no endpoint of this server; choose one");
    }
    return found;
}

// Sends a file and makes a batch of it. completionWindow: "24h". onProgress and signal are of the sending.
export async function createBatch(file, endpoint, completionWindow, onProgress, signal) {
    const form = new FormData();
    form.append("purpose", "batch");
    form.append("file", file);
    const {id} = await postForm("/v1/files", form, onProgress, signal);
    try {
        return await postJson("/v1/batches", {input_file_id: id, endpoint, completion_window: completionWindow});
    } catch (error) {
        remove(`/v1/files/${id}`).catch(() => {}); // nobody would know of it
        throw error;
    }
}

export function listBatches(limit, after) {
    return getJson(`/v1/batches?limit=${limit}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
}

export function cancelBatch(id) {
    return postJson(`/v1/batches/${encodeURIComponent(id)}/cancel`, {});
}

// id -> name of the inputs that are still there.
export async function inputNames() {
    const files = (await getJson(`/v1/files?purpose=batch&limit=${NAMES_MAX}`)).data;
    return new Map(files.map((file) => [file.id, file.filename]));
}

// Saves a file as the browser saves what is downloaded. A link sends no key: with one, the bytes are fetched first.
export async function download(fileId, name) {
    const path = `/v1/files/${encodeURIComponent(fileId)}/content`;
    const href = apiKey.get() ? URL.createObjectURL(await getBlob(path)) : path;
    el("a", {href, download: name}).click();
    if (href !== path) {
        setTimeout(() => URL.revokeObjectURL(href), KEEP_MS);
    }
}
