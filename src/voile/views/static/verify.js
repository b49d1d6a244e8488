// Checks a receipt of voile's audit log in a browser, offline: the steps, their numbers and their
// outcomes are those of `voile audit verify`. Nothing leaves this page.
//
// Needs nothing but WebCrypto (SHA-256 and Ed25519). The rules come from the policy alone: a
// receipt can satisfy them and choose none of them.
"use strict";

const voile = (() => {
  const STEPS = ["policy", "receipt", "record", "checkpoint", "log signature", "witnesses",
    "inclusion", "query", "answer", "consistency", "anchor", "row"];
  const CHECKED = "checked", NOT_CHECKABLE = "not checkable", FAILED = "failed";
  const LARGEST_NOTE = 65536, LARGEST_RECEIPT = 131072, MOST_SIGNATURES = 64, LONGEST_PATH = 63;
  const HEADER = "c2sp.org/tlog-proof@v1", ROW_HEADER = "voile row receipt v1", DASH = "— ";
  const LOG = 1, WITNESS = 4;
  const TAGS = { query: "voile audit log v1 query \n", answer: "voile audit log v1 answer\n" };

  class Malformed extends Error {}
  class NotCheckable extends Error {}

  // --- bytes and texts ----------------------------------------------------------------------------

  const utf8 = (text) => new TextEncoder().encode(text);
  const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  const fromHex = (text) => Uint8Array.from(text.match(/../g) || [], (pair) => parseInt(pair, 16));
  const same = (one, other) => one.length === other.length && one.every((b, n) => b === other[n]);

  function joined(...parts) {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let place = 0;
    for (const part of parts) {
      whole.set(part, place);
      place += part.length;
    }
    return whole;
  }

  function fromUtf8(bytes, what) {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw new Malformed(`expected ${what} in UTF-8`);
    }
  }

  function fromAscii(bytes) {
    if (bytes.some((b) => b > 127)) throw new Malformed("expected ASCII in front of the checkpoint");
    return fromUtf8(bytes, "a text");
  }

  // The one canonical spelling of standard base64: what is decoded must encode to the same.
  function fromBase64(text, what) {
    let content = "";
    if (/^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0) {
      try {
        content = atob(text);
      } catch {
        content = "";
      }
    }
    if (!content || btoa(content) !== text) throw new Malformed(`expected ${what} in base64`);
    return Uint8Array.from(content, (c) => c.charCodeAt(0));
  }

  function hashFromBase64(text, what) {
    const content = fromBase64(text, what);
    if (content.length !== 32) throw new Malformed(`expected ${what} of 32 bytes`);
    return content;
  }

  function decimal(text, what) {
    if (!/^(0|[1-9][0-9]{0,17})$/.test(text)) throw new Malformed(`expected ${what} in decimal`);
    return BigInt(text);
  }

  function checkName(name) {
    if (!name || /[+\p{C}\p{Z}]/u.test(name)) {
      throw new Malformed("expected a name without spaces and plus signs");
    }
    return name;
  }

  async function sha256(...parts) {
    return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
  }

  // --- canonical JSON -----------------------------------------------------------------------------

  // An object of texts and whole numbers in its one spelling: sorted keys, no spaces.
  function decodeFlat(bytes) {
    const text = fromUtf8(bytes, "canonical JSON");
    let value;
    try {
      value = JSON.parse(text);
    } catch {
      throw new Malformed("expected canonical JSON");
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new Malformed("expected an object");
    }
    const parts = Object.keys(value).sort().map((key) => {
      const item = value[key];
      const sound = typeof item === "string" ? item.isWellFormed() : Number.isSafeInteger(item);
      if (!/^[a-z][a-z0-9_]*$/.test(key) || !sound) {
        throw new Malformed(`expected a text or a whole number in ${key}`);
      }
      return `${JSON.stringify(key)}:${JSON.stringify(item)}`;
    });
    if (`{${parts.join(",")}}` !== text) {
      throw new Malformed("expected canonical JSON, found another spelling");
    }
    return new Map(Object.entries(value));
  }

  // --- keys and policies --------------------------------------------------------------------------

  async function parseKey(text) {
    const [name, id = "", ...rest] = text.split("+");
    const content = fromBase64(rest.join("+"), "a verifier key");
    const kind = content[0];
    if ((kind !== LOG && kind !== WITNESS) || content.length !== 33) {
      throw new Malformed("expected an Ed25519 key of type 1 or 4");
    }
    const found = (await sha256(utf8(checkName(name)), utf8("\n"), content)).slice(0, 4);
    if (!/^[0-9a-f]{8}$/.test(id) || hex(found) !== id) {
      throw new Malformed(`expected the key id ${hex(found)}`);
    }
    return { name, kind, id: found, material: content.slice(1) };
  }

  // A policy as voile writes it: `name = value`, where a value is a text, a number or a list of
  // texts, on one line each, and remarks on lines of their own.
  function parseSettings(text) {
    const found = new Map();
    for (const line of text.split(/\r?\n/)) {
      if (!line.trim() || line.trim().startsWith("#")) continue;
      const parts = /^\s*([a-z_]+)\s*=\s*(.*?)\s*$/.exec(line);
      let value;
      try {
        value = JSON.parse(parts[2]);
      } catch {
        throw new Malformed("expected a policy as voile writes it: name = value, a line each");
      }
      if (found.has(parts[1])) throw new Malformed(`${parts[1]} is there twice`);
      found.set(parts[1], value);
    }
    return found;
  }

  const isTexts = (value) => Array.isArray(value) && value.every((v) => typeof v === "string");
  const KINDS = {
    version: (v) => v === 1,
    algorithm: (v) => v === "Ed25519, SHA-256",
    origin: (v) => typeof v === "string",
    log_keys: isTexts,
    witness_keys: isTexts,
    witness_threshold: Number.isSafeInteger,
    witness_urls: isTexts,
    anchor: (v) => v === "" || /^eip155:[1-9][0-9]{0,17}:0x[0-9a-fA-F]{40}$/.test(v),
  };

  async function parsePolicy(text) {
    const found = new Map([["witness_urls", []], ["anchor", ""], ...parseSettings(text)]);
    for (const name of [...Object.keys(KINDS), ...found.keys()]) {
      if (!(name in KINDS) || !found.has(name) || !KINDS[name](found.get(name))) {
        throw new Malformed(`this policy has no ${name} that can be used`);
      }
    }
    const origin = checkName(found.get("origin")), threshold = found.get("witness_threshold");
    const logKeys = await Promise.all(found.get("log_keys").map(parseKey));
    const witnesses = await Promise.all(found.get("witness_keys").map(parseKey));
    if (!logKeys.length || logKeys.some((key) => key.kind !== LOG || key.name !== origin)) {
      throw new Malformed("log_keys: expected keys of type 1 with the name of the origin");
    }
    if (witnesses.some((key) => key.kind !== WITNESS)) {
      throw new Malformed("witness_keys: expected keys of type 4");
    }
    const material = [...logKeys, ...witnesses].map((key) => hex(key.material));
    if (new Set(material).size !== material.length) throw new Malformed("one key is there twice");
    if (threshold < 0 || threshold > witnesses.length) {
      throw new Malformed("witness_threshold: more than there are witnesses");
    }
    return { origin, logKeys, witnesses, threshold };
  }

  // --- notes and checkpoints ----------------------------------------------------------------------

  function parseNote(bytes) {
    if (bytes.length > LARGEST_NOTE) throw new Malformed("expected a shorter note");
    const whole = fromUtf8(bytes, "a note"), gap = whole.lastIndexOf("\n\n");
    const tail = whole.slice(gap + 2);
    // eslint-disable-next-line no-control-regex
    if (gap < 0 || !tail.endsWith("\n") || /[\x00-\x09\x0b-\x1f]/.test(whole)) {
      throw new Malformed("expected a text, an empty line and lines of signatures");
    }
    const lines = tail.slice(0, -1).split("\n");
    if (lines.length > MOST_SIGNATURES) throw new Malformed("expected fewer signatures");
    return { text: whole.slice(0, gap) + "\n", signatures: lines.map(parseSignature) };
  }

  function parseSignature(line) {
    const rest = line.startsWith(DASH) ? line.slice(DASH.length) : line;
    const space = rest.indexOf(" ");
    const content = fromBase64(space < 0 ? "" : rest.slice(space + 1), "a signature");
    if (!line.startsWith(DASH) || content.length < 5) {
      throw new Malformed("expected a signature line");
    }
    const name = checkName(rest.slice(0, space));
    return { name, id: content.slice(0, 4), value: content.slice(4) };
  }

  function parseCheckpoint(text) {
    const lines = text.split("\n");
    if (lines.length < 4 || lines.pop() !== "" || lines.some((line) => !line)) {
      throw new Malformed("expected a checkpoint: origin, tree size and root hash, a line each");
    }
    const [origin, size, root] = lines;
    return { origin, size: decimal(size, "a tree size"), root: hashFromBase64(root, "a root hash") };
  }

  async function isSigned(key, text, value) {
    let body = value, message = utf8(text);
    if (key.kind === WITNESS) {
      if (value.length !== 72) return false;
      const time = value.slice(0, 8).reduce((sum, b) => sum * 256n + BigInt(b), 0n);
      if (time >= 2n ** 63n) return false;
      body = value.slice(8);
      message = joined(utf8(`cosignature/v1\ntime ${time}\n`), message);
    }
    if (body.length !== 64) return false;
    try {
      const known = await crypto.subtle.importKey("raw", key.material, "Ed25519", false, ["verify"]);
      return await crypto.subtle.verify("Ed25519", known, body, message);
    } catch (error) {
      if (error.name === "NotSupportedError") throw error;
      return false;
    }
  }

  // Which of these keys signed; a claim that does not hold is an error.
  async function signers(note, keys) {
    const found = new Set();
    for (const key of keys) {
      for (const signature of note.signatures) {
        if (signature.name !== key.name || !same(signature.id, key.id)) continue;
        if (!(await isSigned(key, note.text, signature.value))) {
          throw new Malformed(`the signature of ${key.name} does not verify`);
        }
        found.add(key);
      }
    }
    return found;
  }

  // --- the tree (RFC 9162, 2.1.3.2) ---------------------------------------------------------------

  const leafHash = (record) => sha256(Uint8Array.of(0), record);

  async function isIncluded(leaf, index, size, path, root) {
    if (index < 0n || index >= size) return false;
    let node = index, last = size - 1n, current = leaf;
    for (const step of path) {
      if (last === 0n) return false;
      if (node & 1n || node === last) {
        current = await sha256(Uint8Array.of(1), step, current);
        while (!(node & 1n) && node) {
          node >>= 1n;
          last >>= 1n;
        }
      } else {
        current = await sha256(Uint8Array.of(1), current, step);
      }
      node >>= 1n;
      last >>= 1n;
    }
    return last === 0n && same(current, root);
  }

  // --- receipts -----------------------------------------------------------------------------------

  // What is before the first empty line, and what is after it.
  function parted(bytes) {
    for (let n = 0; n + 1 < bytes.length; n += 1) {
      if (bytes[n] === 10 && bytes[n + 1] === 10) {
        return [bytes.slice(0, n), bytes.slice(n + 2), true];
      }
    }
    return [bytes, new Uint8Array(), false];
  }

  function after(word, line) {
    if (!line.startsWith(word)) throw new Malformed(`expected a line that begins with ${word}`);
    return line.slice(word.length);
  }

  function parseReceipt(bytes) {
    if (bytes.length > LARGEST_RECEIPT) throw new Malformed("expected a shorter receipt");
    const [head, checkpoint, gap] = parted(bytes);
    const [header, extra, index, ...path] = fromAscii(head).split("\n");
    if (!gap || header !== HEADER || index === undefined) {
      throw new Malformed(`expected a receipt that begins with ${HEADER}`);
    }
    if (path.length > LONGEST_PATH) throw new Malformed("expected fewer hashes");
    const [record, nonces] = openedExtra(fromBase64(after("extra ", extra), "the record"));
    const number = decimal(after("index ", index), "an index");
    const hashes = path.map((line) => hashFromBase64(line, "a hash of the proof"));
    return { record, nonces, index: number, path: hashes, checkpoint };
  }

  function openedExtra(extra) {
    const end = extra.indexOf(10), rest = extra.slice(end + 1);
    if (end < 0 || !rest.length || rest[rest.length - 1] !== 10) {
      throw new Malformed("expected a record and its nonces, a line each");
    }
    const nonces = new Map();
    for (const [name, value] of decodeFlat(rest.slice(0, -1))) {
      if (!Object.hasOwn(TAGS, name) || !/^[0-9a-f]{64}$/.test(value)) {
        throw new Malformed(`expected 32 bytes in hexadecimal as the nonce of ${name}`);
      }
      nonces.set(name, fromHex(value));
    }
    return [extra.slice(0, end), nonces];
  }

  function parseRowReceipt(bytes) {
    if (bytes.length > 2 * LARGEST_RECEIPT) throw new Malformed("expected a shorter receipt");
    const [head, rest] = parted(bytes);
    const lines = Array.from(head, (b) => (b < 128 ? String.fromCharCode(b) : "�")).join("").split("\n");
    const row = /^row (0|[1-9][0-9]{0,15}) of ([1-9][0-9]{0,15})$/.exec(lines[1] || "");
    const nonce = /^nonce ([0-9a-f]{64})$/.exec(lines[2] || "");
    if (lines[0] !== ROW_HEADER || !row || !nonce) {
      throw new Malformed(`expected a receipt that begins with ${ROW_HEADER}, a row and a nonce`);
    }
    if (lines.length - 3 > LONGEST_PATH) throw new Malformed("expected fewer hashes");
    lines.slice(3).forEach((line) => hashFromBase64(line, "a hash of the proof"));
    parseReceipt(rest);
    return rest;
  }

  // --- the steps ----------------------------------------------------------------------------------

  class Steps {
    constructor() {
      this.done = [];
    }

    async run(number, needs, check) {
      let value, outcome = CHECKED, detail = "";
      try {
        for (const needed of needs) {
          const step = this.done.find((each) => each.number === needed);
          if (step.outcome !== CHECKED) throw new NotCheckable(`step ${needed} did not hold`);
        }
        [value, detail] = await check();
      } catch (error) {
        if (!(error instanceof Malformed) && !(error instanceof NotCheckable)) throw error;
        outcome = error instanceof NotCheckable ? NOT_CHECKABLE : FAILED;
        detail = error.message;
      }
      this.done.push({ number, name: STEPS[number - 1], outcome, detail });
      return value;
    }
  }

  async function checkReceipt(bytes, policy, handedIn) {
    const steps = new Steps();
    await steps.run(1, [], () => [policy, `origin ${policy.origin}, ${policy.logKeys.length} log ` +
      `key(s), ${policy.threshold} of ${policy.witnesses.length} witness(es)`]);
    const receipt = await steps.run(2, [], () => {
      const found = parseReceipt(bytes);
      return [found, `record ${found.index}, ${found.path.length} hashes`];
    });
    const record = await steps.run(3, [2], () => {
      const found = decodeFlat(receipt.record);
      if (typeof found.get("kind") !== "string" || typeof found.get("version") !== "number") {
        throw new Malformed("expected a kind and a version in the record");
      }
      return [found, `${found.get("kind")}, version ${found.get("version")}`];
    });
    const signed = await checkSigned(steps, receipt, policy);
    await steps.run(7, [3, 4], async () => {
      const leaf = await leafHash(receipt.record);
      const { size, root } = signed;
      if (!(await isIncluded(leaf, receipt.index, size, receipt.path, root))) {
        throw new Malformed(`the record is not record ${receipt.index} of ${size}, from 0`);
      }
      return [null, `record ${receipt.index}, number ${receipt.index + 1n} of ${size} records`];
    });
    await steps.run(8, [3], () => checkOpening("query", record, receipt, handedIn.query));
    await steps.run(9, [3], () => checkOpening("answer", record, receipt, handedIn.answer));
    const alone = "nothing else was handed in: a fork or a rollback would not show";
    for (const number of [10, 11]) {
      await steps.run(number, [4, 5], () => {
        throw new NotCheckable(alone);
      });
    }
    return { steps: steps.done, record: record || new Map() };
  }

  async function checkSigned(steps, receipt, policy) {
    let note;
    const signed = await steps.run(4, [2], () => {
      note = parseNote(receipt.checkpoint);
      const found = parseCheckpoint(note.text);
      if (found.origin !== policy.origin) throw new Malformed(`expected origin ${policy.origin}`);
      return [found, `${found.size} records, root ${hex(found.root)}`];
    });
    await steps.run(5, [4], async () => {
      const found = await signers(note, policy.logKeys);
      if (!found.size) throw new Malformed("none of the log keys of the policy signed it");
      return [found, "signed with " + [...found].map((key) => `key ${hex(key.id)}`).join(", ")];
    });
    await steps.run(6, [4], async () => {
      const found = await signers(note, policy.witnesses);
      const said = `${found.size} of ${policy.witnesses.length} cosigned`;
      if (found.size < policy.threshold) {
        throw new Malformed(`${said}; the policy asks for ${policy.threshold}`);
      }
      if (!policy.threshold) throw new NotCheckable(`the policy asks for no witness; ${said}`);
      return [found, said];
    });
    return signed;
  }

  async function checkOpening(name, record, receipt, content) {
    if (!content) throw new NotCheckable(`no ${name} was handed in`);
    if (!record.has(name)) throw new Malformed(`this record commits to no ${name}`);
    const nonce = receipt.nonces.get(name);
    if (!nonce) throw new Malformed(`the receipt holds no nonce that opens the ${name}`);
    if (hex(await sha256(utf8(TAGS[name]), nonce, content)) !== record.get(name)) {
      throw new Malformed(`the ${name} handed in is not the one that was recorded`);
    }
    return [null, `the ${name} handed in is the one that was recorded`];
  }

  // Check the receipt of a record or of a row. `handedIn` may hold canonical bytes of the query and
  // of the answer.
  async function verify(bytes, policyText, handedIn = {}) {
    const policy = await parsePolicy(policyText);
    const isRow = same(bytes.slice(0, ROW_HEADER.length), utf8(ROW_HEADER));
    let checked = bytes, row = null;
    if (isRow) {
      row = { number: 12, name: "row", outcome: NOT_CHECKABLE, detail: "no row was handed in" };
      try {
        checked = parseRowReceipt(bytes);
      } catch (error) {
        if (!(error instanceof Malformed)) throw error;
        row = { ...row, outcome: FAILED, detail: error.message };
      }
    }
    const found = await checkReceipt(checked, policy, handedIn);
    const steps = row ? [...found.steps, row] : found.steps;
    const verified = steps.every((step) => step.outcome !== FAILED);
    return { verified, steps, record: Object.fromEntries(found.record) };
  }

  return { verify, Malformed };
})();

// --- the page -------------------------------------------------------------------------------------

if (typeof document !== "undefined" && document.getElementById("verify")) {
  const form = document.getElementById("verify"), shown = document.getElementById("result");
  const add = (parent, tag, text, kind) => {
    const element = parent.appendChild(document.createElement(tag));
    element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const bytesOf = async (name) => {
    const file = form.elements[name].files[0];
    return file ? new Uint8Array(await file.arrayBuffer()) : null;
  };
  const table = (headings, rows) => {
    const made = shown.appendChild(document.createElement("table"));
    const head = made.insertRow();
    headings.forEach((text) => add(head, "th", text));
    for (const [kind, ...cells] of rows) {
      const row = made.insertRow();
      cells.forEach((text, place) => add(row, "td", text,
        place === cells.length - 1 ? "text" : place === 2 ? kind : ""));
    }
  };
  const KIND = { checked: "ok", failed: "bad", "not checkable": "waiting" };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    shown.replaceChildren();
    if (!globalThis.crypto || !crypto.subtle) {
      add(shown, "p", "This browser checks signatures on https pages and in local files only.", "bad");
      return;
    }
    try {
      const [receipt, policy] = await Promise.all([bytesOf("receipt"), bytesOf("policy")]);
      const found = await voile.verify(receipt, new TextDecoder().decode(policy));
      const failed = found.steps.find((step) => step.outcome === "failed");
      add(shown, "p", failed ? `This receipt does NOT hold: step ${failed.number}, ${failed.name}.`
        : "No step failed. This record is in the log that the policy names.", failed ? "bad" : "ok");
      table(["step", "what", "outcome", "detail"], found.steps.map(
        (step) => [KIND[step.outcome], step.number, step.name, step.outcome, step.detail]));
      if (!failed) {
        add(shown, "h2", "What the record says");
        table(["field", "value"], Object.entries(found.record).map(([name, v]) => ["", name, v]));
      }
    } catch (error) {
      add(shown, "p", error instanceof voile.Malformed ? `The policy cannot be used: ${error.message}`
        : "This browser cannot check Ed25519 signatures. Use voile audit verify.", "bad");
    }
  });
}
