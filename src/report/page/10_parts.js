'use strict';
// Everything here goes by the data in the page, makes elements and sets their text: no text ever
// becomes HTML.
const data = JSON.parse(document.getElementById('data').textContent);

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  node.append(...children);
  return node;
}

function shape(name, attributes, text) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (Math.abs(count) >= 1024 && unit + 1 < units.length) { count /= 1024; ++unit; }
  return (unit ? String(+count.toPrecision(3)) : count) + ' ' + units[unit];
}

function seconds(s) {
  const a = Math.abs(s);
  if (a === 0) return '0 s';
  if (a < 1e-3) return +(s * 1e6).toPrecision(3) + ' µs';
  if (a < 1) return +(s * 1e3).toPrecision(3) + ' ms';
  if (a < 100) return +s.toPrecision(3) + ' s';
  if (a < 5400) return Math.floor(s / 60) + 'm ' + String(Math.round(s) % 60).padStart(2, '0') + 's';
  return Math.floor(s / 3600) + 'h ' + String(Math.floor(s / 60) % 60).padStart(2, '0') + 'm';
}

function number(v) {
  const a = Math.abs(v);
  if (a !== 0 && (a < 1e-3 || a >= 1e9)) return v.toExponential(2);
  if (a >= 1000) return Math.round(v).toLocaleString('en');
  return String(+v.toPrecision(4));
}

function percent(v) { return +(100 * v).toPrecision(3) + '%'; }

// Round values of an axis, some `count` of them, within the range.
function ticks(low, high, count) {
  const step0 = (high - low) / Math.max(1, count);
  const power = Math.pow(10, Math.floor(Math.log10(step0)));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= step0 * 0.999) || step0;
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && all.length < 50; ++i) all.push(i * step);
  return all;
}

// Of bytes from 0 on: round in KiB, MiB or GiB, and between a third and all of what is asked for.
function binaryTicks(high, count) {
  let step = Math.pow(2, Math.ceil(Math.log2(Math.max(high, 1) / count)));
  const unit = Math.pow(1024, Math.floor(Math.log(step) / Math.log(1024)));
  step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map(m => m * unit).find(s => s >= high / count * 0.999) || step;
  const all = [];
  for (let i = 0; i * step <= high; ++i) all.push(i * step);
  return all;
}

// Of a logarithmic one: powers of ten, and between them 2 and 5 where there is room.
function logTicks(low, high) {
  const all = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high) && all.length < 60; ++p) {
    for (const m of [1, 2, 5]) {
      const v = m * Math.pow(10, p);
      if (v >= low * 0.999 && v <= high * 1.001) all.push(v);
    }
  }
  return all.length > 9 ? all.filter(v => Math.abs(Math.log10(v) % 1) < 1e-9) : all;
}

// The place of the last value that is at most `x`; 0 where none is.
function placeBefore(list, x) {
  let low = 0, high = list.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] <= x) low = middle; else high = middle;
  }
  return low;
}

function nearest(list, x) {
  const at = placeBefore(list, x);
  return at + 1 < list.length && list[at + 1] - x < x - list[at] ? at + 1 : at;
}

// Draws now, and again where the width or the colours change.
const drawings = [];
function redrawn(container, draw) {
  let width = 0;
  const redraw = () => { width = container.clientWidth; if (width > 0) draw(width); };
  redraw();
  new ResizeObserver(() => requestAnimationFrame(() => { if (container.clientWidth !== width) redraw(); })).observe(container);
  drawings.push(redraw);
  return redraw;
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawings.forEach(d => d()));

function legend(entries) {
  const list = element('ul', {class: 'legend'});
  for (const [name, paint] of entries) {
    const swatch = element('span', {class: 'swatch'});
    swatch.style.background = 'var(--' + paint + ')';
    list.append(element('li', {}, swatch, name));
  }
  return list;
}

// The last part of a path, or all of it where two runs would have the same name.
const shortNames = data.runs.map(r => r.name.replace(/\/+$/, '').split('/').pop() || r.name);
const runNames = data.runs.map((r, i) => shortNames.indexOf(shortNames[i]) === shortNames.lastIndexOf(shortNames[i]) ? shortNames[i] : r.name);
const runColor = i => 'run' + i % 8;
