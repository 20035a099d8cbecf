"use strict";
const files = JSON.parse(document.getElementById("files").textContent);
const form = document.getElementById("choose"), lines = document.getElementById("lines");
const of = {
  package: file => [file.project.replace(/-cu(da)?\d+x?$/, "")],
  Python: file => [file.python],
  CUDA: file => [file.cuda],
  torch: file => file.torch.length ? file.torch : [""],
};
const fits = (file, name, value) => of[name](file).some(own => own === value || (own === "" && value !== ""));
const linked = new URLSearchParams(location.hash.slice(1)); // a page of yours may link to #package=demo&CUDA=13
const order = (a, b) => b.localeCompare(a, "en", { numeric: true });
for (const name of Object.keys(of)) {
  const values = [...new Set(files.flatMap(of[name]))].filter(Boolean).sort(order);
  if (name === "package") values.reverse();
  if (!values.length) continue;
  const label = document.createElement("label"), select = document.createElement("select");
  select.name = name;
  for (const value of values)
    select.add(new Option(name === "Python" ? value.replace(/^cp3/, "3.") : value, value));
  if (values.includes(linked.get(name))) select.value = linked.get(name);
  label.append(name, select);
  form.append(label);
}
function show() {
  const chosen = [...new FormData(form)];
  const fit = files.filter(file => chosen.every(([name, value]) => fits(file, name, value)))
    .sort((a, b) => order(a.version, b.version));
  lines.replaceChildren();
  if (!fit.length) {
    lines.append("There is no wheel for this choice.");
    return;
  }
  const file = fit[0], known = new Map(chosen);
  const wanted = [known.get("CUDA") && `cu${known.get("CUDA")}`, known.get("torch") && `torch${known.get("torch")}`];
  const choice = [wanted.filter(Boolean).join("-"), wanted[0], wanted[1], "all"].find(one => file.choices.includes(one));
  const url = new URL(`${choice}/`, location.href), what = `"${file.project}==${file.version}"`;
  for (const text of [`pip install ${what} --extra-index-url ${url}`, `uv pip install ${what} --index ${url}`]) {
    const line = document.createElement("pre");
    line.textContent = text;
    lines.append(line);
  }
  lines.append(file.name);
}
form.addEventListener("change", show);
form.hidden = false;
show();
