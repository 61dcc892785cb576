// What pages do beyond plain HTML: live updates, keys, charts, small conveniences. Every page works without this file.
(function () {
  "use strict";
  var root = document.documentElement, body = document.body;
  var $ = function (selector, from) { return (from || document).querySelector(selector); };
  var all = function (selector, from) { return Array.prototype.slice.call((from || document).querySelectorAll(selector)); };
  var kept = {
    get: function (key) { try { return localStorage.getItem("fairlane." + key); } catch (e) { return null; } },
    set: function (key, value) {
      try { value ? localStorage.setItem("fairlane." + key, value) : localStorage.removeItem("fairlane." + key); } catch (e) { /* without */ }
    }
  };
  var still = matchMedia("(prefers-reduced-motion: reduce)");

  // ---------------------------------------------------------------- colours
  var scheme = matchMedia("(prefers-color-scheme: dark)");
  function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : scheme.matches; }
  function toggleTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set("theme", root.dataset.theme);
    paintTheme();
    charts();
  }
  function paintTheme() {
    var button = $("#theme");
    if (button) button.setAttribute("aria-pressed", String(isDark()));
  }

  // ---------------------------------------------------------------- live
  // The server says that there is something new; the page asks for its own content again and morphs it, so that focus,
  // selection and what is typed stay. Without a stream it asks every 2 s.
  var live = $("#live"), state = $("#state"), stale = $("#stale"), pause = $("#pause");
  var paused = kept.get("paused") === "1", heard = Date.now(), asking = false, behind = false, stream = null, poll = null;

  function show(name, text) { if (state && state.dataset.state !== name) { state.dataset.state = name; state.textContent = text; } }
  function busy() {
    // Never under the reader's hands: an open menu, a selection of text, a pressed button.
    if (document.hidden || $("dialog[open]")) return true;
    var chosen = getSelection();
    return !!chosen && !chosen.isCollapsed && live.contains(chosen.anchorNode);
  }
  function refresh() {
    if (!live || !window.htmx || paused) return;
    if (busy() || asking) { behind = true; return; }
    asking = true; behind = false;
    htmx.trigger(live, "fairlane:new");
  }
  function connect() {
    if (!live || stream || paused) return;
    if (!window.EventSource) { startPolling(); return; }
    stream = new EventSource(body.dataset.events);
    stream.addEventListener("new", function () { heard = Date.now(); stopPolling(); refresh(); });
    stream.addEventListener("beat", function () { heard = Date.now(); });
    stream.onerror = function () { startPolling(); if (stream && stream.readyState === 2) { stream.close(); stream = null; } };
  }
  function disconnect() { if (stream) { stream.close(); stream = null; } stopPolling(); }
  function startPolling() { if (!poll) poll = setInterval(function () { if (!stream) connect(); refresh(); }, 2000); }
  function stopPolling() { if (poll) { clearInterval(poll); poll = null; } }
  function paintPause() {
    if (!pause) return;
    pause.setAttribute("aria-pressed", String(paused));
    pause.setAttribute("aria-label", paused ? "Resume live updates" : "Pause live updates");
  }
  function setPaused(value) {
    paused = value;
    kept.set("paused", value ? "1" : "");
    paintPause();
    if (paused) { disconnect(); show("paused", "paused"); say("Live updates are paused"); }
    else { heard = Date.now(); connect(); refresh(); show("live", "live"); say("Live updates go on"); }
  }
  function watchStale() {
    if (!live || paused || document.hidden) return;
    var seconds = Math.round((Date.now() - heard) / 1000);
    if (seconds > 12) {
      show("stale", "stale");
      if (stale) { stale.hidden = false; $("#stale-for").textContent = seconds < 90 ? seconds + " s" : Math.round(seconds / 60) + " min"; }
    } else { show("live", "live"); if (stale) stale.hidden = true; }
    if (behind && !busy()) refresh();
  }
  function say(text) { var region = $("#say"); if (region) region.textContent = text; }

  document.addEventListener("htmx:finally:request", function () { asking = false; });
  document.addEventListener("htmx:after:request", function (event) {
    var answer = event.detail && event.detail.ctx && event.detail.ctx.response;
    if (answer && answer.status === 200) heard = Date.now();
    // The session is over: the page itself leads to where one logs in.
    if (answer && (answer.status === 401 || answer.raw.redirected)) { event.preventDefault(); location.reload(); }
  });
  document.addEventListener("htmx:after:swap", function () { live = $("#live"); charts(); restoreChosen(); });
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) disconnect(); else if (!paused) { heard = Date.now(); connect(); refresh(); }
  });
  // A page that comes back from the browser's own cache is as old as it was.
  addEventListener("pageshow", function (event) { if (event.persisted) { heard = Date.now(); connect(); refresh(); } });
  addEventListener("pagehide", disconnect);

  // ---------------------------------------------------------------- choosing rows
  var chosen = new Set();
  function restoreChosen() {
    all("input[data-row]").forEach(function (box) { box.checked = chosen.has(box.value); });
    countChosen();
  }
  function countChosen() {
    var boxes = all("input[data-row]"), on = boxes.filter(function (box) { return box.checked; }).length;
    var top = $("input[data-all]"), told = $("#chosen");
    if (top) { top.checked = on > 0 && on === boxes.length; top.indeterminate = on > 0 && on < boxes.length; }
    if (told) told.textContent = on ? on + " chosen" : "";
    all("[data-needs-rows]").forEach(function (button) { button.disabled = !on; });
  }
  document.addEventListener("change", function (event) {
    var box = event.target;
    if (box.matches("input[data-all]")) {
      all("input[data-row]").forEach(function (row) { row.checked = box.checked; row.checked ? chosen.add(row.value) : chosen.delete(row.value); });
      countChosen();
    } else if (box.matches("input[data-row]")) {
      box.checked ? chosen.add(box.value) : chosen.delete(box.value);
      countChosen();
    } else if (box.matches("[data-submit]")) { box.form.requestSubmit(); }
  });
  document.addEventListener("input", function (event) {
    // A large action asks for the number of jobs it means to be typed.
    var typed = event.target;
    if (typed.matches("[data-typed]")) $("#" + typed.dataset.typed).disabled = typed.value.replace(/[^0-9]/g, "") !== typed.dataset.wanted;
  });
  document.addEventListener("submit", function (event) {
    var button = event.submitter;
    if (event.target.dataset.sent) { event.preventDefault(); return; }
    if (event.target.method === "post") {
      event.target.dataset.sent = "1";
      setTimeout(function () { delete event.target.dataset.sent; }, 4000);
    }
    if (button && button.dataset.copy) event.preventDefault();
  });
  document.addEventListener("click", function (event) {
    var at = event.target.closest("button, summary, [data-go]");
    if (!at) {
      if (!event.target.closest("details.menu")) closeMenus();
      return;
    }
    if (at.id === "theme") toggleTheme();
    else if (at.id === "pause") setPaused(!paused);
    else if (at.id === "keys") openHelp();
    else if (at.dataset.close !== undefined) at.closest("dialog").close();
    else if (at.dataset.copy !== undefined && navigator.clipboard) {
      navigator.clipboard.writeText(at.dataset.copy).then(function () { say("Copied"); });
    } else if (at.matches("details.menu > summary")) closeMenus(at.parentNode);
    else if (!at.closest("details.menu")) closeMenus();
  });
  function closeMenus(but) { all("details.menu[open]").forEach(function (menu) { if (menu !== but) menu.open = false; }); }

  // ---------------------------------------------------------------- keys
  var pending = 0, row = -1;
  function openHelp() { var help = $("#help"); if (help && !help.open) help.showModal(); }
  function go(key) {
    var link = $('nav.main a[data-key="' + key + '"]');
    if (link) link.click();
  }
  function move(by) {
    var rows = all("#live a[data-main]");
    if (!rows.length) return;
    var at = rows.indexOf(document.activeElement);
    row = Math.max(0, Math.min(rows.length - 1, (at < 0 ? row : at) + by));
    rows[row].focus();
    rows[row].scrollIntoView({ block: "nearest", behavior: still.matches ? "auto" : "smooth" });
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var at = event.target, key = event.key;
    if (key === "Escape") {
      closeMenus();
      if (at.matches && at.matches("input, textarea")) at.blur();
      return;
    }
    if (at.matches && (at.matches("input:not([type=checkbox]):not([type=radio]), textarea, select") || at.isContentEditable)) return;
    if ($("dialog[open]")) return;
    if (Date.now() - pending < 1200) { pending = 0; go(key); event.preventDefault(); return; }
    if (key === "g") pending = Date.now();
    else if (key === "/") { var search = $("#q"); if (search) { search.focus(); search.select(); } else go("j"); event.preventDefault(); }
    else if (key === "?") openHelp();
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "x") { var box = $("input[data-row]", at.closest && at.closest("tr")); if (box) box.click(); }
    else if (key === "r") { behind = false; asking = false; if (paused) location.reload(); else refresh(); say("Refreshed"); }
    else if (key === "p") { if (pause) setPaused(!paused); }
    else if (key === "t") toggleTheme();
  });

  // ---------------------------------------------------------------- charts
  var drawn = new Map();
  function colour(name) {
    // Computed through a property that takes colours, since a variable's own text may be light-dark(...).
    var probe = colour.probe || (colour.probe = body.appendChild(document.createElement("i")));
    probe.hidden = true;
    probe.style.color = "var(--" + name + ")";
    return getComputedStyle(probe).color;
  }
  function span(seconds) {
    if (seconds == null) return "–";
    if (seconds < 0.1) return Math.round(seconds * 1000) + " ms";
    if (seconds < 60) return (seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)) + " s";
    if (seconds < 3600) return Math.round(seconds / 60) + " m";
    return (seconds / 3600).toFixed(1) + " h";
  }
  function moment(seconds) { return new Date(seconds * 1000).toISOString().slice(11, 16); }
  function charts() {
    if (!window.uPlot) return;
    drawn.forEach(function (chart, box) { if (!box.isConnected) { chart.plot.destroy(); drawn.delete(box); } });
    all(".chart[data-chart]").forEach(function (box) {
      var text = box.dataset.chart, held = drawn.get(box), tone = isDark();
      if (held && held.text === text && held.tone === tone) return;
      var spec = JSON.parse(text);
      if (held && held.tone === tone && held.count === spec.series.length) { held.plot.setData(spec.data); held.text = text; return; }
      if (held) held.plot.destroy();
      drawn.set(box, { plot: draw(box, spec), text: text, tone: tone, count: spec.series.length });
    });
  }
  function draw(box, spec) {
    var line = colour("line"), mut = colour("mut");
    var tell = spec.unit === "s" ? span : function (value) { return value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 }) + (spec.unit || ""); };
    var axis = { stroke: mut, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui, sans-serif" };
    box.replaceChildren();
    return new uPlot({
      width: Math.max(200, box.clientWidth - 20), height: 190,
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time: true }, y: { range: function (u, low, high) { return [0, high > 0 ? high * 1.15 : 1]; } } },
      axes: [Object.assign({ space: 70, values: function (u, at) { return at.map(moment); } }, axis), Object.assign({ size: 56, values: function (u, at) { return at.map(tell); } }, axis)],
      series: [{ label: "UTC", value: function (u, at) { return at == null ? "–" : moment(at); } }].concat(spec.series.map(function (one) {
        return { label: one.label, stroke: colour(one.colour), width: 1.75, dash: one.dash, spanGaps: true, points: { show: false, size: 5, fill: colour(one.colour), filter: alone }, value: function (u, at) { return tell(at); } };
      }))
    }, spec.data, box);
  }
  // A line needs two neighbours: a point that has none is drawn as a dot, or it could not be seen.
  function alone(u, number) {
    var at = u.data[number];
    return at.reduce(function (found, value, i) {
      if (value != null && at[i - 1] == null && at[i + 1] == null) found.push(i);
      return found;
    }, []);
  }
  var sizing = 0;
  addEventListener("resize", function () {
    cancelAnimationFrame(sizing);
    sizing = requestAnimationFrame(function () {
      drawn.forEach(function (chart, box) { chart.plot.setSize({ width: Math.max(200, box.clientWidth - 20), height: 190 }); });
    });
  });
  scheme.addEventListener("change", function () { paintTheme(); charts(); });

  // Where the menu scrolls, the entry of this page must be in sight.
  function showSection() {
    var entry = document.querySelector("nav.main a[aria-current]"), menu = entry && entry.parentNode;
    if (menu) menu.scrollLeft = entry.offsetLeft - menu.offsetLeft - (menu.clientWidth - entry.offsetWidth) / 2;
  }

  // ---------------------------------------------------------------- begin
  paintTheme();
  paintPause();
  showSection();
  restoreChosen();
  charts();
  if (live) {
    if (paused) show("paused", "paused"); else if (!document.hidden) connect();
    setInterval(watchStale, 1000);
  }
})();
