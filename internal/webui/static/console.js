// The console works without this file. It keeps the regions of a page up to date, and changes the
// colors without loading the page again.

const announce = document.getElementById("announce");

// Live regions: the server sends the HTML of a region when it has changed.

const button = document.getElementById("live");
let source = null;
let paused = false;

function replaceRegion({ id, html }) {
  const region = document.getElementById(id);
  if (!region || !region.hasAttribute("data-live")) return;
  const next = document.createElement("template");
  next.innerHTML = html; // the server has escaped it, and no script in it could run
  const open = new Map([...region.querySelectorAll("details[id]")].map((d) => [d.id, d.open]));
  const focused = region.contains(document.activeElement) ? pathOf(region, document.activeElement) : null;
  const scrolled = [...region.querySelectorAll(".scroll")].map((s) => [s.scrollLeft, s.scrollTop]);
  region.replaceChildren(next.content);
  for (const [id, isOpen] of open) {
    const details = document.getElementById(id);
    if (details) details.open = isOpen;
  }
  region.querySelectorAll(".scroll").forEach((s, i) => {
    if (scrolled[i]) [s.scrollLeft, s.scrollTop] = scrolled[i];
  });
  if (focused) elementAt(region, focused)?.focus({ preventScroll: true });
}

// pathOf finds an element again after its region was replaced: by its id, else by its place.
function pathOf(region, element) {
  if (element.id) return element.id;
  const path = [];
  for (let e = element; e !== region; e = e.parentElement) path.unshift([...e.parentElement.children].indexOf(e));
  return path;
}

function elementAt(region, path) {
  if (typeof path === "string") return document.getElementById(path);
  return path.reduce((e, i) => e?.children[i], region);
}

function selecting(region) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && region?.contains(selection.anchorNode);
}

function connect() {
  if (source || paused || document.hidden) return;
  source = new EventSource("/ui/events?page=" + encodeURIComponent(location.pathname + location.search));
  source.addEventListener("region", (event) => {
    const region = JSON.parse(event.data);
    if (!selecting(document.getElementById(region.id))) replaceRegion(region);
  });
  source.addEventListener("open", () => show("Live"));
  source.addEventListener("error", () => {
    show("Offline");
    if (source?.readyState === EventSource.CLOSED) {
      disconnect();
      setTimeout(connect, 5000); // the browser tries again by itself only if the connection was lost
    }
  });
}

function disconnect() {
  source?.close();
  source = null;
}

function show(state) {
  if (button.dataset.state === state.toLowerCase()) return;
  button.dataset.state = state.toLowerCase();
  document.getElementById("live-state").textContent = state;
  announce.textContent = state === "Offline" ? "The gateway does not answer. This page is not up to date." : "";
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    if (paused) {
      disconnect();
      show("Paused");
    } else {
      connect();
    }
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", connect);
  connect();
}

// Colors.

document.querySelector("form.theme")?.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  const theme = event.submitter.value;
  document.documentElement.dataset.theme = theme;
  for (const b of form.querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.value === theme));
  const fields = new URLSearchParams(new FormData(form));
  fields.set("theme", theme);
  fetch(form.action, { method: "POST", body: fields, redirect: "manual" });
});

// Forms whose fields filter a page: a choice applies at once.

for (const form of document.querySelectorAll("form[data-auto]")) {
  form.addEventListener("change", (event) => {
    if (event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
  });
}

// "/" goes to the search of a page.

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const search = document.querySelector("input[type=search]");
  if (search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});
