// Shows the name of the mark nearest to the pointer at once, where the browser's own tooltip waits for a second; and prints
// results unfolded.
"use strict";
(function () {
  var tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.appendChild(tip);
  function distance(mark, x, y) {
    var box = mark.getBoundingClientRect();
    var dx = Math.max(box.left - x, 0, x - box.right);
    var dy = Math.max(box.top - y, 0, y - box.bottom);
    return Math.hypot(dx, dy);
  }
  document.querySelectorAll("figure svg").forEach(function (chart) {
    var marks = Array.from(chart.querySelectorAll(".pt"));
    marks.forEach(function (mark) {
      var title = mark.querySelector("title");
      mark.gpukernText = title.textContent;
      title.remove();
    });
    var lit = null;
    function light(mark) {
      if (lit) { lit.classList.remove("lit"); }
      if (mark) { mark.classList.add("lit"); }
      lit = mark;
    }
    chart.addEventListener("pointermove", function (event) {
      var nearest = null;
      var least = 24;
      marks.forEach(function (mark) {
        var away = distance(mark, event.clientX, event.clientY);
        if (least > away) { least = away; nearest = mark; }
      });
      light(nearest);
      tip.hidden = nearest === null;
      if (nearest) {
        tip.textContent = nearest.gpukernText;
        var left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
        tip.style.left = Math.max(left, 4) + "px";
        tip.style.top = (event.clientY + 18) + "px";
      }
    });
    chart.addEventListener("pointerleave", function () { light(null); tip.hidden = true; });
  });
  // Paper unfolds nothing.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.from(document.querySelectorAll(".results details:not([open])"));
    folded.forEach(function (fold) { fold.open = true; });
  });
  window.addEventListener("afterprint", function () { folded.forEach(function (fold) { fold.open = false; }); });
}());
