// What a page can do more with JavaScript: pause and announce live parts, copy, change colours, a key for search.
// Everything works without this file.
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // Live parts: htmx asks every few seconds; not while nobody looks, and not while paused.
  const live = byId("live");
  const control = byId("live-control");
  let paused = false;
  let failed = false;

  // What somebody types or ticks in a live part must not be swapped away: it waits until the form is sent or emptied.
  const isTyped = (field) =>
    field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
  const isFilledIn = () => [...(live?.querySelectorAll("input, textarea") ?? [])].some(isTyped);

  const isLive = () => Boolean(live && live.hasAttribute("hx-trigger"));

  const showLive = () => {
    if (!control || !isLive()) return;
    const waits = !paused && isFilledIn();
    control.dataset.state = paused || waits ? "paused" : failed ? "failed" : "live";
    control.querySelector("span").textContent = paused ? "paused" : waits ? "waits" : failed ? "not live" : "live";
    control.setAttribute("aria-pressed", String(paused));
    control.title = paused
      ? "Updates are paused: press to go on"
      : waits
        ? "Updates wait until the form is sent or emptied"
        : "This page updates itself: press to pause";
  };

  const refresh = () => {
    if (isLive() && window.htmx && !isFilledIn()) window.htmx.trigger(live, "refresh");
  };

  document.addEventListener("htmx:before:request", (event) => {
    const source = event.detail?.ctx?.sourceEvent;
    if (source?.type === "every" && (paused || document.hidden || isFilledIn())) event.preventDefault();
  });

  // What is on the page grows old while it is not updated: said once, until it is updated again.
  const OLD_AFTER = 60_000;
  let fresh = Date.now();
  const sayOld = () => {
    const notice = byId("live-notice");
    if (!isLive() || document.hidden || failed || !notice || notice.firstChild) return;
    if (Date.now() - fresh < OLD_AFTER) return;
    const line = document.createElement("p");
    const why = paused ? "updates are paused" : isFilledIn() ? "updates wait for the form" : "it was not updated since";
    line.textContent = `What you see is of ${new Date(fresh).toLocaleTimeString()}: ${why}.`;
    notice.append(line);
  };
  setInterval(sayOld, 5_000);

  const settle = (ok) => {
    failed = !ok;
    if (ok) fresh = Date.now();
    const notice = byId("live-notice");
    if (ok && notice) notice.replaceChildren();
    if (!ok && notice && !notice.firstChild) {
      const line = document.createElement("p");
      line.textContent = "Drainboard does not answer, so this page is not updated. It goes on by itself when it does.";
      notice.append(line);
    }
    const said = byId("said");
    if (ok && said?.dataset.title) document.title = said.dataset.title;
    showLive();
  };

  document.addEventListener("htmx:after:swap", (event) => {
    const status = event.detail?.ctx?.response?.status ?? 200;
    settle(status < 400 || status === 404);
  });
  document.addEventListener("htmx:error", () => settle(false));
  document.addEventListener("input", showLive);
  document.addEventListener("change", showLive);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) refresh();
  });

  control?.addEventListener("click", () => {
    paused = !paused;
    showLive();
    if (!paused) refresh();
  });
  showLive();

  // Colours: the button goes from what is shown to the other one.
  byId("theme-control")?.addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("drainboard.theme", root.dataset.theme);
    } catch {
      // Not remembered; shown all the same.
    }
  });

  // Copy buttons: `data-copy` holds the text, `data-copy-from` the address that answers it.
  const say = (button, words) => {
    const label = button.querySelector("[data-label]");
    const before = label?.textContent;
    if (label) label.textContent = words;
    button.dataset.done = "yes";
    const announcement = byId("copied");
    if (announcement) announcement.textContent = words;
    setTimeout(() => {
      delete button.dataset.done;
      if (label && label.textContent === words) label.textContent = before;
      if (announcement) announcement.textContent = "";
    }, 1600);
  };

  const textOf = async (button) => {
    if (button.dataset.copy !== undefined) return button.dataset.copy;
    const answer = await fetch(button.dataset.copyFrom);
    if (!answer.ok) throw new Error(String(answer.status));
    const isJson = answer.headers.get("Content-Type")?.startsWith("application/json");
    return isJson ? JSON.stringify(await answer.json(), null, 2) : answer.text();
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-from]");
    if (!button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(await textOf(button));
      say(button, "Copied");
    } catch {
      if (button.href) location.assign(button.href);
      else say(button, "Could not copy");
    }
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-print]")) window.print();
  });

  // Times are UTC; on hover and focus they are told in the reader's own zone too.
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  document.addEventListener("pointerover", (event) => {
    const time = event.target.closest?.("time[datetime]");
    if (!time) return;
    const when = new Date(time.dateTime);
    if (!Number.isNaN(when.getTime())) time.title = `${zoned.format(when)}\n${when.toISOString()}`;
  });

  // "/" goes to the search, Escape out of it.
  document.addEventListener("keydown", (event) => {
    const field = byId("search");
    if (event.key === "Escape" && event.target === field) field.blur();
    if (event.key !== "/" || !field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
