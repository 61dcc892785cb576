// Before the first paint: the reader's own choice of colours, where there is one.
(function () {
  try {
    var theme = localStorage.getItem("fairlane.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch (error) { /* storage may be forbidden: the system's choice holds */ }
})();
