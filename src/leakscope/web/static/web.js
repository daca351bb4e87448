"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const { page, name } = document.body.dataset;
  const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const text = (id, value) => { if (byId(id).textContent !== value) byId(id).textContent = value; };

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s left`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min left`;
    return `${(seconds / 3600).toFixed(1)} h left`;
  }

  function watch(address, show) {
    const known = new Map();
    const source = new EventSource(address);
    source.onmessage = (event) => {
      const { names, entries } = JSON.parse(event.data);
      entries.forEach((entry) => known.set(entry.key ?? entry.name, entry));
      [...known.keys()].filter((key) => !names.includes(key)).forEach((key) => known.delete(key));
      show(known, new Set(entries.map((entry) => entry.key ?? entry.name)));
    };
    addEventListener("pagehide", () => source.close());
  }

  function line(run) {
    const item = byId("line").content.cloneNode(true).firstElementChild;
    const link = item.querySelector("a"), state = item.querySelector(".state"), badge = item.querySelector(".badge");
    item.dataset.name = run.name;
    link.href = `/runs/${encodeURIComponent(run.name)}`; link.textContent = run.name;
    state.textContent = run.state; state.classList.add(`state-${run.state}`);
    if (run.sentence) { badge.textContent = run.level; badge.classList.add(`level-${run.level}`); } else badge.remove();
    item.querySelector(".sentence").textContent = run.problem || run.sentence;
    const facts = [run.subject, run.created, run.state === "finished" ? "" : `${run.done} of ${run.planned} cells`];
    item.querySelector(".facts").textContent = facts.filter(Boolean).join(" · ");
    const bar = item.querySelector("progress");
    if (run.state === "running" && run.planned) { bar.hidden = false; bar.max = run.planned; bar.value = run.done; bar.setAttribute("aria-label", "Cells that have ended"); }
    return item;
  }

  function showRuns(known) {
    const runs = [...known.values()].sort((one, other) => other.changed - one.changed);
    byId("none").hidden = runs.length > 0;
    const focused = document.activeElement?.closest("[data-name]")?.dataset.name;
    byId("runs").replaceChildren(...runs.map(line));
    if (focused) byId("runs").querySelector(`[data-name="${CSS.escape(focused)}"] a`)?.focus();
  }

  function row(cell) {
    const line = document.createElement("tr"), head = document.createElement("th");
    line.dataset.key = cell.key; head.scope = "row"; head.textContent = cell.title;
    const level = document.createElement("td");
    if (cell.level) { const badge = document.createElement("span"); badge.className = `badge level-${cell.level}`; badge.textContent = cell.level; level.append(badge); }
    const plain = (value) => { const field = document.createElement("td"); field.textContent = value; return field; };
    line.append(head, plain(cell.error ? `${cell.status}: ${cell.error}` : cell.status), level, plain(number(cell.iteration, 0)), plain(number(cell.psnr, 2)), plain(number(cell.l_sim, 4)));
    return line;
  }

  const SVG = "http://www.w3.org/2000/svg";
  const shape = (kind, attributes) => {
    const element = document.createElementNS(SVG, kind);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    return element;
  };

  function curve(title, points, column, log) {
    const pairs = points.filter((point) => point[column] !== null && (!log || point[column] > 0)).map((point) => [point[0], log ? Math.log10(point[column]) : point[column]]);
    if (pairs.length < 2) return null;
    const xs = pairs.map(([x]) => x), ys = pairs.map(([, y]) => y);
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const place = ([x, y]) => `${(48 + ((x - left) / (right - left || 1)) * 322).toFixed(1)},${(112 - ((y - low) / (high - low || 1)) * 100).toFixed(1)}`;
    const value = (y) => (log ? 10 ** y : y).toPrecision(3);
    const svg = shape("svg", { class: "chart", viewBox: "0 0 380 130", role: "img", "aria-label": `${title} from ${value(ys[0])} to ${value(ys.at(-1))}` });
    for (const y of [low, high]) {
      const at = place([left, y]).split(",")[1];
      svg.append(shape("line", { class: "grid", x1: 48, x2: 370, y1: at, y2: at }));
      svg.append(Object.assign(shape("text", { class: "tick end", x: 42, y: Number(at) + 4 }), { textContent: value(y) }));
    }
    for (const x of [left, right]) svg.append(Object.assign(shape("text", { class: "tick", x: place([x, low]).split(",")[0], y: 127 }), { textContent: x }));
    svg.append(shape("polyline", { class: "line line-0", points: pairs.map(place).join(" ") }));
    const figure = document.createElement("figure"), caption = document.createElement("figcaption"), last = document.createElement("span");
    last.textContent = value(ys.at(-1)); caption.append(title, last); figure.append(caption, svg);
    return figure;
  }

  function paint(canvas, picture, n) {
    const width = Math.max(1, Math.round(picture.naturalWidth / n) - 1);
    const bands = Math.max(1, Math.round((picture.naturalHeight - 3) / (width + 1)));
    const height = Math.round((picture.naturalHeight - 3) / bands) - 1;
    const room = canvas.parentElement.clientWidth - 40, factor = Math.max(1, Math.min(4, Math.round(80 / width)));
    const columns = Math.max(1, Math.min(n, Math.floor((room / factor + 2) / (width + 2))));
    const block = bands * (height + 1) + 5, rows = Math.ceil(n / columns);
    canvas.width = columns * (width + 2) - 2; canvas.height = rows * block - 5;
    const pen = canvas.getContext("2d");
    for (let i = 0; i < n; i += 1) for (let band = 0; band < bands; band += 1)
      pen.drawImage(picture, i * (width + 1), band * (height + 1), width, height, (i % columns) * (width + 2), Math.floor(i / columns) * block + band * (height + 1), width, height);
    Object.assign(canvas.style, { width: `${canvas.width * factor}px`, height: `${canvas.height * factor}px` });
    canvas.dataset.painted = String(Number(canvas.dataset.painted ?? 0) + 1);
    canvas.dataset.factor = factor;
  }

  function update(article, cell) {
    article.querySelector("h3").textContent = cell.title;
    const speed = cell.speed ? `${cell.speed.toPrecision(2)} iterations per second` : "starting";
    const parts = [`worker ${cell.worker}`, `iteration ${number(cell.iteration, 0)} of ${number(cell.iterations, 0)}`, speed, duration(cell.left)];
    article.querySelector(".facts").textContent = parts.filter(Boolean).join(" · ");
    const bar = article.querySelector("progress");
    bar.max = cell.iterations || 1; bar.value = cell.iteration || 0; bar.setAttribute("aria-label", `Progress of ${cell.title}`);
    const drawn = [curve("PSNR in dB", cell.points, 1, false), curve("L_sim", cell.points, 2, true), curve("Objective", cell.points, 3, true)];
    article.querySelector(".curves").replaceChildren(...drawn.filter(Boolean));
    const canvas = article.querySelector("canvas");
    canvas.setAttribute("aria-label", `Originals and reconstructions so far of ${cell.title}`);
    if (cell.preview && canvas.dataset.version !== cell.preview) {
      canvas.dataset.version = cell.preview;
      const picture = new Image();
      picture.onload = () => paint(canvas, picture, cell.n || 1);
      picture.src = `/runs/${encodeURIComponent(name)}/cells/${cell.key}/preview.png?v=${cell.preview}`;
    }
    article.querySelector(".heads").hidden = !cell.preview;
  }

  function showLive(cells, fresh) {
    const live = byId("live"), going = cells.filter((cell) => cell.status === "running");
    byId("live-section").hidden = going.length === 0;
    [...live.children].filter((one) => !going.some((cell) => cell.key === one.dataset.key)).forEach((one) => one.remove());
    for (const cell of going) {
      let article = [...live.children].find((one) => one.dataset.key === cell.key);
      if (!article) {
        article = byId("live-cell").content.cloneNode(true).firstElementChild;
        article.dataset.key = cell.key;
        live.append(article);
      } else if (!fresh.has(cell.key)) continue;
      update(article, cell);
    }
  }

  function showHead(head) {
    text("state", head.state); byId("state").className = `state state-${head.state}`;
    text("level", head.level); byId("level").className = `badge level-${head.level}`; byId("level").hidden = !head.sentence;
    byId("head").className = `run-head level-${head.level}`;
    text("sentence", head.sentence);
    text("facts", [head.subject, head.created].filter(Boolean).join(" · "));
    byId("overall").value = head.share; byId("starting").hidden = head.state !== "starting";
    text("overall-text", [head.planned ? `${head.done} of ${head.planned} cells` : "", head.state === "running" ? duration(head.left) : ""].filter(Boolean).join(", "));
    const problem = head.state === "starting" ? "" : head.problem || head.complaint;
    text("problem", problem); byId("problem").hidden = !problem;
    byId("stop").hidden = !head.mine; byId("resume").hidden = !head.resumable;
    ["report", "download", "redacted"].forEach((id) => { byId(id).hidden = !head.sentence; });
    byId("raw").hidden = head.state !== "finished";
  }

  function showRun(known, fresh) {
    const head = known.get("run"), cells = [...known.values()].filter((entry) => entry !== head);
    showHead(head);
    const table = byId("cells"), rows = new Map([...table.children].map((one) => [one.dataset.key, one]));
    for (const cell of cells) {
      if (!rows.has(cell.key)) table.append(row(cell));
      else if (fresh.has(cell.key)) rows.get(cell.key).replaceWith(row(cell));
    }
    showLive(cells, fresh);
  }

  if (page === "runs") watch("/events", showRuns);
  if (page === "run") watch(`/runs/${encodeURIComponent(name)}/events`, showRun);
})();
