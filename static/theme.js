// Runs before the first paint: marks that there is JavaScript and applies the chosen colours, if any were chosen.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const theme = localStorage.getItem("drainboard.theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch {
    // Storage is forbidden: the system's colours are used.
  }
})();
