// The lanes of a step: a bar for each task. Predicted and measured share one view, in seconds, that
// is moved and zoomed by pointer, keys and buttons.
const kindColors = {embed: 'forward', forward: 'forward', recompute: 'recompute', backward: 'backward',
                    embed_backward: 'backward', norm: 'norm', update: 'update', add_gradient: 'gradients',
                    finish_gradient: 'gradients', loss: 'head', note_loss: 'other', reset_scale: 'norm'};
const kindColor = kind => kindColors[kind] || (kind.startsWith('head') ? 'head' : purposeColor(kind));

function laneChart(parent, step, window_, changed) {
  const lanes = step.lanes.filter(l => l.spans.length > 0);
  const readout = element('div', {class: 'readout'});
  const canvas = element('canvas', {tabindex: 0, role: 'img'});
  canvas.setAttribute('aria-label', `Lanes of a step, ${step.kind}: ` + lanes.map(l => `${l.name} busy ${seconds(l.busy_seconds)}`).join(', '));
  parent.append(element('div', {class: 'lanes'}, element('h3', {}, `${step.kind[0].toUpperCase() + step.kind.slice(1)}: step ${step.step}, ${seconds(step.seconds)}`), canvas, readout));
  const rowHeight = 40, axis = 22, height = lanes.length * rowHeight + axis;
  const tick = step.tick_seconds;
  const starts = lanes.map(l => l.spans.map(s => s[0]));
  const rest = () => { readout.textContent = 'Point at a bar to see what it is.'; };
  rest();
  const draw = width => {
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = height + 'px';
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    const [from, to] = window_.range, x = s => (s - from) / (to - from) * width;
    const text = color('text'), soft = color('soft'), onBar = color('on-bar'), line = color('line');
    const paints = step.kinds.map(k => color(kindColor(k)));
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    lanes.forEach((lane, row) => {
      const y = row * rowHeight;
      pen.fillStyle = text;
      pen.fillText(`${lane.name}   ${percent(lane.busy_seconds / step.seconds)} busy`, 0, y + 8, width);
      pen.fillStyle = line;
      pen.fillRect(0, y + 17, width, 18);
      const first = Math.max(0, placeBefore(starts[row], from / tick) - 1);
      for (let i = first; i < lane.spans.length; ++i) {
        const [start, long, name, kind] = lane.spans[i];
        const left = x(start * tick);
        if (left > width) break;
        const right = x((start + long) * tick);
        if (right < 0) continue;
        pen.fillStyle = paints[kind];
        pen.fillRect(left, y + 17, Math.max(right - left - (right - left > 4 ? 1 : 0), .6), 18);
        const seen = Math.min(right, width) - Math.max(left, 0);
        if (seen < 26) continue;
        const words = step.names[name];
        if (pen.measureText(words).width + 8 > seen) continue;
        pen.fillStyle = onBar;
        pen.fillText(words, Math.max(left, 0) + 4, y + 26.5);
      }
    });
    pen.fillStyle = soft;
    pen.strokeStyle = soft;
    for (const v of ticks(from, to, Math.max(2, Math.min(9, width / 110)))) {
      const at = x(v);
      pen.fillRect(at, height - axis, 1, 4);
      const words = seconds(+v.toPrecision(6)), wide = pen.measureText(words).width;
      pen.fillText(words, Math.min(Math.max(at - wide / 2, 0), width - wide), height - 8);
    }
  };
  const redraw = redrawn(canvas, draw);
  const pointers = new Map();
  const at = event => {
    const rect = canvas.getBoundingClientRect();
    return [(event.clientX - rect.left) / rect.width, event.clientY - rect.top];
  };
  const toSeconds = share => window_.range[0] + share * (window_.range[1] - window_.range[0]);
  canvas.addEventListener('pointerdown', event => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, at(event)); });
  for (const kind of ['pointerup', 'pointercancel']) canvas.addEventListener(kind, event => pointers.delete(event.pointerId));
  canvas.addEventListener('pointermove', event => {
    const now = at(event), before = pointers.get(event.pointerId);
    if (before) {
      if (pointers.size === 1) {
        window_.move((before[0] - now[0]) * (window_.range[1] - window_.range[0]));
      } else {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const wide = Math.abs(before[0] - other[0]), wider = Math.abs(now[0] - other[0]);
        if (wide > .01 && wider > .01) window_.zoom(wide / wider, toSeconds(other[0]));
      }
      pointers.set(event.pointerId, now);
      changed();
      return;
    }
    const row = Math.floor(now[1] / rowHeight), lane = lanes[row];
    if (!lane) { rest(); return; }
    const where = toSeconds(now[0]) / tick;
    const slack = (window_.range[1] - window_.range[0]) / tick / canvas.clientWidth * 2;
    const near = placeBefore(starts[row], where + slack);
    const span = [near, near - 1].map(i => lane.spans[i]).find(s => s && s[0] - slack <= where && s[0] + s[1] + slack >= where);
    if (!span) { readout.textContent = `${lane.name}: nothing at ${seconds(toSeconds(now[0]))}`; return; }
    const more = span[4] ? ` and ${span[4]} more` : '';
    readout.textContent = `${lane.name}: ${step.names[span[2]]}${more}, ${seconds(span[1] * tick)} from ${seconds(span[0] * tick)}`;
  });
  canvas.addEventListener('pointerleave', rest);
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    window_.zoom(event.deltaY > 0 ? 1.25 : .8, toSeconds(at(event)[0]));
    changed();
  }, {passive: false});
  canvas.addEventListener('dblclick', event => { window_.zoom(.5, toSeconds(at(event)[0])); changed(); });
  canvas.addEventListener('keydown', event => {
    const act = {'+': () => window_.zoom(.7), '=': () => window_.zoom(.7), '-': () => window_.zoom(1.4), '0': () => window_.all(),
                 ArrowLeft: () => window_.move(-window_.part()), ArrowRight: () => window_.move(window_.part())}[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    changed();
  });
  return redraw;
}

function drawLanes(parent, run) {
  const steps = [run.predicted, run.measured].filter(s => s);
  const end = Math.max(...steps.map(s => s.seconds));
  const window_ = {
    range: [0, end],
    set(from, long) {
      const wide = Math.min(end, Math.max(end / 20000, long));
      const start = Math.min(end - wide, Math.max(0, from));
      this.range = [start, start + wide];
    },
    part() { return (this.range[1] - this.range[0]) / 5; },
    move(by) { this.set(this.range[0] + by, this.range[1] - this.range[0]); },
    zoom(by, around) {
      const [from, to] = this.range, middle = around === undefined ? (from + to) / 2 : around;
      this.set(middle - (middle - from) * by, (to - from) * by);
    },
    all() { this.set(0, end); }
  };
  const redraws = [];
  const changed = () => redraws.forEach(r => r());
  const button = (label, words, act) => {
    const one = element('button', {type: 'button', title: words, 'aria-label': words}, label);
    one.addEventListener('click', () => { act(); changed(); });
    return one;
  };
  parent.append(element('div', {class: 'controls'},
    button('−', 'Zoom out', () => window_.zoom(1.6)), button('+', 'Zoom in', () => window_.zoom(1 / 1.6)),
    button('◀', 'Earlier', () => window_.move(-window_.part())), button('▶', 'Later', () => window_.move(window_.part())),
    button('All', 'The whole step', () => window_.all()),
    element('span', {class: 'soft'}, 'Drag to move; pinch, double-click or Ctrl and the wheel to zoom.')));
  const total = new Map();
  for (const step of steps) for (const lane of step.lanes) for (const span of lane.spans) {
    const paint = kindColor(step.kinds[span[3]]);
    const words = step.kinds[span[3]].replace(/_/g, ' ');
    if (!total.has(paint)) total.set(paint, new Set());
    total.get(paint).add(words);
  }
  parent.append(legend([...total].map(([paint, words]) => [[...words].join(', '), paint])));
  for (const step of steps) redraws.push(laneChart(parent, step, window_, changed));
}
