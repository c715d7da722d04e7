// The report reads without this: it adds a theme switch and a way to save the raw records.
(function () {
  var theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", function () {
    var root = document.documentElement;
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  var save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", function () {
    var text = document.getElementById("tierloom-records").textContent.trim() + "\n";
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    link.download = "records.jsonl";
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  });
})();
