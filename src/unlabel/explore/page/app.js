"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
document.getElementById("title").textContent = data.title;
