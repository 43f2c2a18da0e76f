/* files.js - files of a sandbox: directories, short texts as text, and downloads. */

import { boxPath, esc, get, request } from "./api.js";
import { say, sayProblem } from "./dialog.js";
import { el, setText, Table } from "./dom.js";
import { bytes } from "./format.js";

const LIST_MAX = 2000;
const VIEW_MAX = 256 * 1024;
const DOWNLOAD_MAX = 512 * 1024 * 1024; /* a browser holds it as a whole */

const columns = [{ title: "Name" }, { title: "Size", class: "right" }, { title: "Mode" }, { title: "Owner" }, { title: "Changed" }, { title: "Actions" }];
const rank = { directory: 0 };

const byName = (a, b) => (rank[a.type] ?? 1) - (rank[b.type] ?? 1) || (a.name < b.name ? -1 : 1);

export class Files {
  constructor(id) {
    this.id = id;
    this.table = new Table("Files", columns, { empty: "An empty directory." });
    this.path = el("input", { id: "path", value: "", spellcheck: "false", autocomplete: "off" });
    this.more = el("p", { class: "faint", role: "status" });
    this.title = el("h3", { tabindex: "-1" });
    this.text = el("pre", { tabindex: "0" });
    this.view = el("div", { hidden: true }, this.title, this.text);
    const form = el(
      "form",
      { class: "filters" },
      el("span", { class: "field grow" }, el("label", { for: "path" }, "Directory"), this.path),
      el("button", { type: "submit" }, "Open"),
      el("button", { type: "button", onclick: () => this.list(`${this.path.value}/..`) }, "Up"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.list(this.path.value);
    });
    this.node = el("div", {}, form, this.table.node, this.more, this.view);
  }

  open() {
    this.list(this.path.value);
  }

  async list(path) {
    try {
      const found = await get(`${boxPath(this.id)}/files/list?limit=${LIST_MAX}&path=${esc(path === "" ? "." : path)}`);
      this.path.value = found.path;
      this.view.hidden = true;
      this.table.show(found.entries.sort(byName), { key: (e) => `${e.type} ${e.path}`, fill: (e, cells) => this.fill(e, cells) });
      setText(this.more, found.truncated ? `Only the first ${LIST_MAX} are shown.` : "");
    } catch (problem) {
      sayProblem("Files", problem);
    }
  }

  fill(entry, cells) {
    const isDirectory = entry.type === "directory";
    if (cells[0].childElementCount === 0) {
      const open = () => (isDirectory ? this.list(entry.path) : this.show(entry));
      const isOther = entry.type === "other";
      cells[0].append(isOther ? el("span", {}, entry.name) : el("button", { type: "button", class: "link", onclick: open }, `${entry.name}${isDirectory ? "/" : ""}`));
      if (entry.type === "file") cells[5].append(el("button", { type: "button", "aria-label": `Download ${entry.name}`, onclick: () => this.download(entry) }, "Download"));
    }
    setText(cells[1], isDirectory ? "-" : bytes(entry.size));
    setText(cells[2], entry.mode);
    setText(cells[3], `${entry.uid}:${entry.gid}`);
    setText(cells[4], (entry.mtime ?? "").replace("T", " ").replace(/\..*/, ""));
  }

  filePath(entry) {
    return `${boxPath(this.id)}/files?path=${esc(entry.path)}`;
  }

  async show(entry) {
    try {
      const response = await request("GET", this.filePath(entry), { headers: { Range: `bytes=0-${VIEW_MAX - 1}` } });
      const data = new Uint8Array(await response.arrayBuffer());
      const text = new TextDecoder().decode(data);
      const isText = !text.slice(0, 8192).includes("\0");
      setText(this.title, `${entry.path}${entry.size > data.length ? `, the first ${bytes(data.length)} of ${bytes(entry.size)}` : ""}`);
      setText(this.text, isText ? text : "It is no text: download it.");
      this.view.hidden = false;
      this.title.focus();
    } catch (problem) {
      /* An empty file has no first byte. */
      if (problem.status === 416) say(`${entry.name} is empty.`);
      else sayProblem(entry.name, problem);
    }
  }

  async download(entry) {
    if (entry.size > DOWNLOAD_MAX) {
      say(`${entry.name} has more than ${bytes(DOWNLOAD_MAX)}: use 'sandpool cp'.`, true);
      return;
    }
    try {
      const response = await request("GET", this.filePath(entry));
      const url = URL.createObjectURL(new Blob([await response.arrayBuffer()], { type: "application/octet-stream" }));
      el("a", { href: url, download: entry.name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
      say(`${entry.name} was downloaded.`);
    } catch (problem) {
      sayProblem(entry.name, problem);
    }
  }

  close() {}
}
