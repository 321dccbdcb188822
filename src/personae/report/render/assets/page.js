"use strict";
// The figures and the library that draws them are compressed, and are base64 letters.
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

const draw = (element, figure) => {
  const layout = Object.assign({}, figure.layout);
  if (narrow) {
    layout.margin = Object.assign({}, layout.margin, { l: 44, r: 8 });
    layout.font = { size: 11 };
  }
  Plotly.react(element, figure.data, layout, {
    responsive: true,
    displaylogo: false,
    displayModeBar: narrow ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  });
};

// Shows the selected option at once and after each change. The selection is stored,
// because a served page reloads itself.
const follow = (select, show) => {
  const key = location.pathname + "#" + select.id;
  const stored = sessionStorage.getItem(key);
  if ([...select.options].some((option) => option.value === stored)) select.value = stored;
  show(select);
  select.addEventListener("change", () => {
    sessionStorage.setItem(key, select.value);
    show(select);
  });
};

const reports = [...document.querySelectorAll("article")];
// Plotly cannot measure a hidden element: charts are drawn when their report is shown.
const drawnReports = new Set();
const open = (report) => {
  for (const other of reports) other.hidden = other !== report;
  if (drawnReports.has(report)) return;
  drawnReports.add(report);
  for (const element of report.querySelectorAll(".chart")) {
    const variants = figures[element.id];
    const select = document.getElementById("choose-" + element.id);
    if (select) follow(select, (choice) => draw(element, variants[choice.value]));
    else draw(element, Object.values(variants)[0]);
  }
};
const choice = document.getElementById("choose-report");
if (choice) follow(choice, (select) => open(reports[select.selectedIndex]));
else open(reports[0]);

// A served page reloads when there is a newer version; a page from a file cannot.
if (document.body.dataset.version && location.protocol.startsWith("http")) {
  setInterval(async () => {
    const answer = await fetch("version", { cache: "no-store" }).catch(() => null);
    if (answer && answer.ok && (await answer.text()) !== document.body.dataset.version) location.reload();
  }, 2000);
}
