"use strict";
// The figures and what draws them are compressed: each is text once unpacked.
const unpack = (id) => {
  const letters = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(text).text();
};
const library = document.createElement("script");
library.textContent = await unpack("plotly");
document.head.append(library);
const figures = JSON.parse(await unpack("figures"));
const narrow = window.innerWidth < 600;

const draw = (place, figure) => {
  const layout = Object.assign({}, figure.layout);
  if (narrow) {
    layout.margin = Object.assign({}, layout.margin, { l: 44, r: 8 });
    layout.font = { size: 11 };
  }
  Plotly.react(place, figure.data, layout, {
    responsive: true,
    displaylogo: false,
    displayModeBar: narrow ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  });
};

// Calls back with what is chosen, now and after each change. What was chosen stays so
// when a page that is served renews itself.
const follow = (select, show) => {
  const key = location.pathname + "#" + select.id;
  const chosen = sessionStorage.getItem(key);
  if ([...select.options].some((option) => option.value === chosen)) select.value = chosen;
  show(select);
  select.addEventListener("change", () => {
    sessionStorage.setItem(key, select.value);
    show(select);
  });
};

const reports = [...document.querySelectorAll("article")];
const drawn = new Set();
const open = (report) => {
  for (const other of reports) other.hidden = other !== report;
  if (drawn.has(report)) return;
  drawn.add(report);
  for (const place of report.querySelectorAll(".chart")) {
    const variants = figures[place.id];
    const select = document.getElementById("choose-" + place.id);
    if (select) follow(select, (choice) => draw(place, variants[choice.value]));
    else draw(place, Object.values(variants)[0]);
  }
};
const choice = document.getElementById("choose-report");
if (choice) follow(choice, (select) => open(reports[select.selectedIndex]));
else open(reports[0]);

// A page that is served looks for a newer one; a page from a file stays as it is.
if (document.body.dataset.version && location.protocol.startsWith("http")) {
  setInterval(async () => {
    const answer = await fetch("version", { cache: "no-store" }).catch(() => null);
    if (answer && answer.ok && (await answer.text()) !== document.body.dataset.version) location.reload();
  }, 2000);
}
