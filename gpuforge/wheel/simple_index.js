"use strict";
const { files, choices } = JSON.parse(document.getElementById("files").textContent);
const form = document.getElementById("choose"), lines = document.getElementById("lines");
const of = { // what a wheel is for; "" is everything
  package: file => [file.project.replace(/-cu(da)?\d+x?$/, "")],
  version: file => [file.version.replace(/\+.*/, "")],
  system: file => file.systems,
  Python: file => [file.python],
  CUDA: file => [file.cuda],
  torch: file => file.torch.length ? file.torch : [""],
};
const shown = { Python: value => value.replace(/^cp3/, "3.") };
const fits = (file, [name, value]) => of[name](file).some(own => own === value || own === "");
const linked = new URLSearchParams(location.hash.slice(1)); // a page of yours may link to #package=demo&CUDA=13
const usual = "Linux x86_64"; // the system at first, also beside a wheel for every system
const order = (a, b) => b.localeCompare(a, "en", { numeric: true });
files.sort((a, b) => order(a.version, b.version) || order(a.python, b.python));
for (const name of Object.keys(of)) {
  const values = [...new Set(files.flatMap(of[name]))].filter(Boolean).sort(order);
  if (name === "package") values.reverse();
  if (!values.length) continue;
  const label = document.createElement("label"), select = document.createElement("select");
  select.name = name;
  for (const value of values) select.add(new Option((shown[name] || String)(value), value));
  if (values.includes(usual)) select.value = usual;
  label.append(name, select);
  form.append(label);
}
// Show the newest wheel with the values `kept`, and with as many of the others that were chosen as there is one for.
function show(kept, chosen, report) {
  const matches = file => chosen.filter(each => fits(file, each)).length;
  const fit = files.filter(file => kept.every(each => fits(file, each)));
  lines.replaceChildren();
  if (!fit.length) {
    lines.append("There is no wheel for this choice.");
    return;
  }
  const file = fit.reduce((best, each) => matches(each) > matches(best) ? each : best);
  const changed = [];
  for (const select of form.elements) {
    const own = of[select.name](file);
    if (own.includes(select.value) || own.includes("")) continue;
    if (report) changed.push(`${select.name} ${(shown[select.name] || String)(own[0])}`);
    select.value = own[0];
  }
  const known = new FormData(form);
  const wanted = [file.cuda && `cu${known.get("CUDA")}`, file.torch.length && `torch${known.get("torch")}`];
  const choice = [wanted.filter(Boolean).join("-"), wanted[0], wanted[1], "all"].find(one => choices.includes(one));
  const url = new URL(`${choice}/`, location.href), what = `"${file.project}==${file.version}"`;
  for (const text of [`pip install ${what} --extra-index-url ${url}`, `uv pip install ${what} --index ${url}`]) {
    const line = document.createElement("pre");
    line.textContent = text;
    line.tabIndex = 0; // by keyboard: Tab selects the line, Ctrl-C copies it
    line.role = "textbox";
    line.ariaReadOnly = "true";
    line.ariaLabel = text.split(" ", 1)[0];
    line.addEventListener("focus", () => getSelection().selectAllChildren(line));
    lines.append(line);
  }
  const size = file.size < 1e6 ? `${Math.ceil(file.size / 1e3)} kB` : `${(file.size / 1e6).toFixed(1)} MB`;
  lines.append(`${file.name}, ${size}`);
  if (changed.length) lines.append(`. Changed to fit this choice: ${changed.join(", ")}.`);
}
form.addEventListener("change", ({ target }) => {
  const kept = [["package", form.elements.package.value], [target.name, target.value]];
  show(kept, [...new FormData(form)], true);
});
form.hidden = false;
show([...linked].filter(([name]) => of[name]), [["package", form.elements.package?.value], ["system", usual]], false);
