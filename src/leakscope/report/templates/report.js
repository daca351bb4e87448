"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const picker = byId("picker"), first = byId("strip-first"), chosen = byId("strip-chosen"), zoom = byId("zoom");
  const read = (id) => { const block = byId(id); return block ? JSON.parse(block.textContent) : {}; };
  const png = (data) => `data:image/png;base64,${data}`;

  function tile(data, kind, width, height) {
    if (data) return Object.assign(document.createElement("img"), { alt: kind, width, height, decoding: "async", src: png(data) });
    const blank = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const attributes = { class: "blank", role: "img", "aria-label": `${kind} not known`, width, height };
    Object.entries(attributes).forEach(([name, value]) => blank.setAttribute(name, value));
    return blank;
  }

  function card(trio, cell, originals) {
    const item = byId("card").content.cloneNode(true).firstElementChild;
    const [tiles, caption] = item.firstElementChild.children;
    tiles.classList.toggle("large", cell.large);
    tiles.append(
      tile(originals[trio.number], "original", cell.width, cell.height),
      tile(trio.reconstruction, "reconstruction", cell.width, cell.height),
      tile(cell.guess, "guess", cell.width, cell.height),
    );
    caption.querySelector("b").textContent = `Image ${trio.number}`;
    const mark = caption.querySelector("i");
    if (trio.identified === null) mark.remove();
    else { mark.className = trio.identified ? "hit" : "miss"; mark.textContent = trio.identified ? "identified" : "not identified"; }
    caption.querySelector("span").textContent = trio.caption;
    return item;
  }

  function strip(key) {
    const cell = read(`cell-${key}`), originals = cell.client ? read(`originals-${cell.client}`) : {};
    const title = document.createElement("p"), badge = document.createElement("span"), list = document.createElement("ul");
    title.className = "strip-title"; badge.className = `badge level-${cell.level}`; badge.textContent = cell.level;
    const cut = cell.trios.length < cell.total ? `, the ${cell.trios.length} most leaked of ${cell.total} images (the others are in the run folder)` : "";
    title.append(badge, ` ${cell.title}${cut}${cell.problem ? `: ${cell.problem}` : ""}`);
    list.className = "strip";
    list.append(...cell.trios.map((trio) => card(trio, cell, originals)));
    return [title, list];
  }

  function show(key) {
    const own = first && key === first.dataset.key;
    first.hidden = !own; chosen.hidden = own;
    chosen.replaceChildren(...(own ? [] : strip(key)));
    if (picker) picker.value = key;
  }

  let cards = [], at = 0;
  function enlarge(step) {
    at = (at + step + cards.length) % cards.length;
    const images = [...cards[at].querySelectorAll("img")];
    const size = images[0].naturalWidth, room = Math.min(innerWidth - 64, 1180);
    const fits = (count) => Math.floor(Math.min((room - 13 * (count - 1)) / count, innerHeight * 0.6) / size);
    const factor = Math.max(1, fits(images.length) >= 4 ? fits(images.length) : fits(2));
    byId("zoom-images").replaceChildren(...images.map((image) => {
      const figure = document.createElement("figure"), caption = document.createElement("figcaption"), copy = image.cloneNode();
      copy.width = image.naturalWidth * factor; copy.height = image.naturalHeight * factor;
      caption.textContent = image.alt;
      figure.append(copy, caption);
      return figure;
    }));
    const text = cards[at].querySelector(".caption");
    byId("zoom-title").textContent = text.querySelector("b").textContent;
    byId("zoom-caption").textContent = text.innerText.replace(/^\s*Image \d+\s*/, "").replace(/\s+/g, " ");
  }

  document.addEventListener("click", (event) => {
    const jump = event.target.closest("[data-cell]"), trio = event.target.closest(".trio");
    if (jump) { show(jump.dataset.cell); byId("images").scrollIntoView(); byId("h-images").setAttribute("tabindex", "-1"); byId("h-images").focus({ preventScroll: true }); }
    if (trio) { cards = [...document.querySelectorAll(".strip .trio")].filter((one) => one.offsetParent); at = cards.indexOf(trio); enlarge(0); zoom.showModal(); }
    if (event.target === zoom) zoom.close();
  });
  if (picker) { picker.value = first.dataset.key; picker.addEventListener("change", () => show(picker.value)); }
  byId("zoom-close").addEventListener("click", () => zoom.close());
  byId("zoom-back").addEventListener("click", () => enlarge(-1));
  byId("zoom-next").addEventListener("click", () => enlarge(1));
  zoom.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { enlarge(step); event.preventDefault(); }
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details.rest").forEach((one) => { one.open = true; }));
})();
